#include "colossal/base/build_id.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace colossal {
namespace {

// The linker writes the same bytes into the file.
TEST(BuildId, IsThatOfTheProgramThatHoldsIt) {
  const std::string id = build_id();
  ASSERT_GE(id.size(), 16u) << id;
  std::string bytes;
  for (size_t i = 0; i < id.size(); i += 2)
    bytes += static_cast<char>(std::stoi(id.substr(i, 2), nullptr, 16));
  std::ostringstream program;
  program << std::ifstream("/proc/self/exe", std::ios::binary).rdbuf();
  EXPECT_NE(program.str().find("GNU" + std::string(1, '\0') + bytes), std::string::npos) << id;
}

}  // namespace
}  // namespace colossal
