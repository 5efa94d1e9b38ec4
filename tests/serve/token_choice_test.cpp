// Tokens that a device chooses are those that the host samples from the same logits.
#include "colossal/serve/token_choice.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/ops/tensors.h"

namespace colossal::serve {
namespace {

constexpr int64_t kVocabulary = 300;

void expect_like_sample(const at::Tensor& logits, const SamplingOptions& options) {
  std::vector<TokenChoice> choices;
  for (int64_t row = 0; row < logits.size(0); ++row) {
    choices.push_back(choice_on_device(options, row, /*position=*/row + 7).value());
  }
  const at::Tensor tokens = choose_tokens(logits, choices);
  for (int64_t row = 0; row < logits.size(0); ++row) {
    EXPECT_EQ(tokens[row].item<int64_t>(),
              sample(logits[row].to(at::kDouble).contiguous(), options, row + 7))
        << "row " << row;
  }
}

TEST(TokenChoice, IsWhatTheHostSamples) {
  // More rows than are chosen at once. In bf16 many logits are equal.
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor logits = (3 * ops::normal({70, kVocabulary}, at::kFloat, 1)).to(type);
    for (const SamplingOptions& options : std::vector<SamplingOptions>{
             {.temperature = 0},
             {.seed = 5},
             {.temperature = 0.5, .seed = 6},
             {.top_k = 5},
             {.top_k = 1},
             {.top_k = 2 * kVocabulary},
             {.top_p = 0.7},
             {.top_p = 1e-9},
             {.min_p = 0.1},
             {.temperature = 1.5, .top_k = 40, .top_p = 0.9, .min_p = 0.02, .seed = 9}}) {
      SCOPED_TRACE(testing::Message()
                   << "temperature " << options.temperature << ", top_k " << options.top_k
                   << ", top_p " << options.top_p << ", min_p " << options.min_p);
      expect_like_sample(logits, options);
    }
  }
}

TEST(TokenChoice, EachRowHasItsOwnOptions) {
  const at::Tensor logits = ops::normal({4, kVocabulary}, at::kFloat, 2);
  const std::vector<SamplingOptions> options{
      {.temperature = 0}, {.seed = 3}, {.temperature = 0.3, .top_p = 0.5, .seed = 4}};
  const std::vector<int64_t> rows{0, 2, 3};
  std::vector<TokenChoice> choices;
  for (size_t i = 0; i < rows.size(); ++i) {
    choices.push_back(choice_on_device(options[i], rows[i], /*position=*/11).value());
  }
  const at::Tensor tokens = choose_tokens(logits, choices);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(tokens[static_cast<int64_t>(i)].item<int64_t>(),
              sample(logits[rows[i]].to(at::kDouble), options[i], 11));
  }
}

TEST(TokenChoice, MasksAndWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  at::Tensor logits = at::zeros({4, 3}, at::kDouble);
  logits[0].fill_(-kInfinity)[1].fill_(-5);  // one token is left
  logits[1].fill_(-kInfinity);
  logits[2][1].fill_(std::numeric_limits<double>::quiet_NaN());
  logits[3][2].fill_(kInfinity);
  for (const double temperature : {0.0, 1.0}) {
    std::vector<TokenChoice> choices;
    for (int64_t row = 0; row < 4; ++row) {
      choices.push_back({.row = row, .temperature = temperature, .random = 0.9999999999});
    }
    EXPECT_TRUE(choose_tokens(logits, choices).equal(at::tensor({1, -1, -1, -1}, at::kLong)));
  }
}

TEST(TokenChoice, OptionsThatReadTheTextNeedTheHost) {
  EXPECT_TRUE(choice_on_device({.top_k = 3}, 0, 0));
  EXPECT_FALSE(choice_on_device({.typical_p = 0.5}, 0, 0));
  EXPECT_FALSE(choice_on_device({.repetition_penalty = 1.1}, 0, 0));
  EXPECT_FALSE(choice_on_device({.min_tokens = 2}, 0, 0));
  EXPECT_FALSE(choice_on_device({.suppress_tokens = {1}}, 0, 0));
}

}  // namespace
}  // namespace colossal::serve
