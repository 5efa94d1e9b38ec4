#include "colossal/serve/model_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "colossal/io/safetensors.h"
#include "tests/support/temporary_directory.h"

namespace colossal::serve {
namespace {

class ModelFolder : public testing::Test {
 protected:
  at::ScalarType type_of(const std::string& config) const {
    folder_.write("config.json", config);
    return compute_type(folder_.path());
  }
  void write_tensor(io::ScalarType type) const {
    const io::SafetensorsPlan plan = io::plan_safetensors({{"w", type, {1}}}, {});
    folder_.write("model.safetensors",
                  plan.header + std::string(static_cast<size_t>(plan.entries[0].bytes()), '\0'));
  }
  const test::TemporaryDirectory folder_;
};

TEST_F(ModelFolder, ComputesInTheTypeOfTheFolder) {
  EXPECT_EQ(type_of(R"({"dtype": "float64"})"), at::kDouble);
  EXPECT_EQ(type_of(R"({"dtype": "float32", "torch_dtype": "float64"})"), at::kFloat);
  EXPECT_EQ(type_of(R"({"torch_dtype": "torch.bfloat16"})"), at::kBFloat16);
  EXPECT_EQ(type_of(R"({"torch_dtype": "float16"})"), at::kBFloat16);
  write_tensor(io::ScalarType::f64);
  EXPECT_EQ(type_of("{}"), at::kDouble);
  write_tensor(io::ScalarType::f16);
  EXPECT_EQ(type_of(R"({"dtype": "auto"})"), at::kBFloat16);
}

}  // namespace
}  // namespace colossal::serve
