#include "colossal/serve/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "colossal/base/error.h"

namespace colossal::serve {
namespace {

const at::Tensor& logits() {
  static const at::Tensor kLogits =
      at::tensor({0.0, 2.0, 1.0, -1.0, 2.0}, at::kDouble).log_softmax(0);
  return kLogits;
}

std::array<int, 5> draw(const SamplingOptions& options, int count) {
  std::array<int, 5> drawn{};
  for (int position = 0; position < count; ++position) ++drawn[sample(logits(), options, position)];
  return drawn;
}

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheMostLikely) {
  EXPECT_EQ(sample(logits(), {.temperature = 0}, 0), 1);
}

TEST(Sampling, DrawsByProbability) {
  constexpr int kDraws = 20000;
  const auto drawn = draw({.seed = 3}, kDraws);
  const at::Tensor expected = logits().exp() * kDraws;
  double chi_squared = 0;
  for (int token = 0; token < 5; ++token) {
    const double wanted = expected[token].item<double>();
    chi_squared += (drawn[token] - wanted) * (drawn[token] - wanted) / wanted;
  }
  EXPECT_LT(chi_squared, 18.5);  // 4 degrees of freedom, p = 0.001
}

TEST(Sampling, TopKKeepsTheMostLikely) {
  const auto drawn = draw({.top_k = 2}, 500);
  EXPECT_GT(drawn[1], 0);
  EXPECT_GT(drawn[4], 0);
  EXPECT_EQ(drawn[0] + drawn[2] + drawn[3], 0);
}

TEST(Sampling, TopPKeepsTheFewestThatReachP) {
  const auto most = draw({.top_p = 0.8}, 500);  // 0.38 + 0.38 + 0.14
  EXPECT_GT(most[2], 0);
  EXPECT_EQ(most[0] + most[3], 0);
  const auto one = draw({.top_p = 1e-9}, 100);
  EXPECT_EQ(one[1], 100);
}

TEST(Sampling, IsAFunctionOfSeedAndPosition) {
  std::set<int64_t> by_seed;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const SamplingOptions options{.seed = seed};
    EXPECT_EQ(sample(logits(), options, 7), sample(logits(), options, 7));
    by_seed.insert(sample(logits(), options, 7));
  }
  EXPECT_GT(by_seed.size(), 2);
}

TEST(Sampling, RefusesWhatMakesNoSense) {
  EXPECT_THROW(validate({.temperature = -1}, 5), ConfigError);
  EXPECT_THROW(validate({.top_k = -1}, 5), ConfigError);
  EXPECT_THROW(validate({.top_p = 0}, 5), ConfigError);
  EXPECT_THROW(validate({.top_p = 1.5}, 5), ConfigError);
  validate({}, 5);
}

}  // namespace
}  // namespace colossal::serve
