#include "colossal/report/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace colossal::report {
namespace {

TEST(Crc32c, CheckValueOfTheCatalogue) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
}

TEST(Crc32c, ExamplesOfRfc3720) {
  std::string ascending;
  for (char i = 0; i < 32; ++i) ascending.push_back(i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
}

TEST(Crc32c, OfNothingIsZeroAndMasked) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(masked_crc32c(""), 0xA282EAD8u);
}

// 0xE3069283 rotated right by 15 bits is 0x2507C60D; with the constant, 0xC78AB0E5.
TEST(Crc32c, Masked) {
  EXPECT_EQ(masked_crc32c("123456789"), 0xC78AB0E5u);
}

}  // namespace
}  // namespace colossal::report
