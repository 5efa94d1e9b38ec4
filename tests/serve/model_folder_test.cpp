#include "colossal/serve/model_folder.h"

#include <gmock/gmock.h>

#include <fstream>

#include "colossal/io/safetensors.h"
#include "colossal/text/bytes_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace colossal::serve {
namespace {

using testing::ElementsAre;

class ModelFolder : public testing::Test {
 protected:
  std::vector<int32_t> ends() const { return end_tokens(folder_.path(), text::BytesTokenizer()); }
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

TEST_F(ModelFolder, TextsEndAsGenerationConfigThenConfigThenTheTokenizerSay) {
  EXPECT_THAT(ends(), ElementsAre(256));
  folder_.write("config.json", R"({"eos_token_id": 7})");
  EXPECT_THAT(ends(), ElementsAre(7));
  folder_.write("config.json", R"({"eos_token_id": [7, 9]})");
  EXPECT_THAT(ends(), ElementsAre(7, 9));
  folder_.write("generation_config.json", R"({"eos_token_id": null, "temperature": 0.6})");
  EXPECT_THAT(ends(), ElementsAre(7, 9));
  folder_.write("generation_config.json", R"({"eos_token_id": [3, 1]})");
  EXPECT_THAT(ends(), ElementsAre(3, 1));
}

TEST_F(ModelFolder, EndsThatAreNoTokensAreRefused) {
  for (const char* end : {"\"</s>\"", "-1", "2.5", "[1, null]", "{}"}) {
    folder_.write("config.json", fmt::format(R"({{"eos_token_id": {}}})", end));
    EXPECT_THROW(ends(), ConfigError) << end;
  }
}

TEST_F(ModelFolder, SamplesByDefaultAsGenerationConfigSays) {
  EXPECT_EQ(default_sampling(folder_.path()).temperature, SamplingOptions().temperature);
  folder_.write("generation_config.json", R"({"temperature": 0.5, "top_k": 7})");
  EXPECT_EQ(default_sampling(folder_.path()).temperature, 0.5);
  EXPECT_EQ(default_sampling(folder_.path()).top_k, 7);
  folder_.write("generation_config.json", R"({"temperature": 0.5, "do_sample": false})");
  EXPECT_EQ(default_sampling(folder_.path()).temperature, 0);
}

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
