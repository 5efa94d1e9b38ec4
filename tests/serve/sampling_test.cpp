#include "colossal/serve/sampling.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "colossal/base/error.h"
#include "colossal/io/json.h"
#include "colossal/serve/generation_settings.h"
#include "colossal/serve/logits_processing.h"

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

SamplingOptions options_of(const nlohmann::json& fields) {
  GenerationSettings settings;
  EXPECT_TRUE(apply_generation_config(settings, fields, 20, "the case").empty());
  return settings.sampling;
}

void expect_probabilities(const nlohmann::json& expected, const SamplingOptions& options,
                          const at::Tensor& processed) {
  std::vector<double> found(processed.numel());
  for (const auto& [token, probability] : distribution(processed, options)) {
    found[token] = probability;
  }
  for (size_t token = 0; token < found.size(); ++token) {
    EXPECT_NEAR(found[token], expected[token].get<double>(), 1e-12) << token;
    EXPECT_EQ(found[token] == 0, expected[token] == 0) << token;
  }
}

// sampling_golden.py wrote the probabilities that transformers computes for these logits.
TEST(Sampling, ProbabilitiesAreThoseOfTransformers) {
  const nlohmann::json golden = io::read_json(std::filesystem::path(COLOSSAL_TEST_SOURCE_DIR) /
                                              "tests" / "serve" / "sampling_golden.json");
  const auto seen = golden["seen"].get<std::vector<int32_t>>();
  const auto source = golden["source"].get<std::vector<int32_t>>();
  const auto ends = golden["end_tokens"].get<std::vector<int32_t>>();
  const std::span<const int32_t> all(seen);
  const at::Tensor raw = at::tensor(golden["logits"].get<std::vector<double>>(), at::kDouble);
  for (const nlohmann::json& each : golden["cases"]) {
    SCOPED_TRACE(each["options"].dump());
    const SamplingOptions options = options_of(each["options"]);
    // The result does not depend on where the prompt ends.
    for (const size_t prompt : {0, 2, 5}) {
      const at::Tensor processed = raw.clone();
      process_logits(processed, options,
                     {.prompt = all.first(prompt), .generated = all.subspan(prompt)});
      expect_probabilities(each["probabilities"], options, processed);
    }
  }
  for (const nlohmann::json& each : golden["placed"]) {
    SCOPED_TRACE(each.dump());
    const SamplingOptions options = options_of(each["options"]);
    const auto prompt = each["prompt"].get<size_t>();
    const at::Tensor processed = raw.clone();
    process_logits(processed, options,
                   {.prompt = all.first(prompt),
                    .generated = all.subspan(prompt),
                    .end_tokens = ends,
                    .source = source,
                    .max_new_tokens = each["options"].value("max_length", int64_t{30}) -
                                      static_cast<int64_t>(prompt)});
    expect_probabilities(each["probabilities"], options, processed);
  }
}

TEST(Sampling, PenaltiesMasksAndBiasesAreOfTheirTokensOnly) {
  const auto processed = [](const SamplingOptions& options, std::vector<int32_t> generated) {
    const at::Tensor values = at::arange(5, at::kDouble);
    const std::vector<int32_t> prompt{4}, ends{0};
    process_logits(values, options, {.prompt = prompt, .generated = generated, .end_tokens = ends});
    return std::vector<double>(values.const_data_ptr<double>(),
                               values.const_data_ptr<double>() + 5);
  };
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  using Values = std::vector<double>;
  EXPECT_EQ(processed({.presence_penalty = 0.5, .frequency_penalty = 0.25}, {2, 3, 2}),
            (Values{0, 1, 1, 2.25, 4}));
  EXPECT_EQ(processed({.logit_bias = {{1, 2.5}, {3, -1}}}, {}), (Values{0, 3.5, 2, 2, 4}));
  EXPECT_EQ(processed({.bad_words = {{4}, {1}}}, {}), (Values{0, kNever, 2, 3, kNever}));
  EXPECT_EQ(processed({.allowed_tokens = {4, 1}}, {}), (Values{kNever, 1, kNever, kNever, 4}));
  EXPECT_EQ(processed({.min_tokens = 2}, {1}), (Values{kNever, 1, 2, 3, 4}));
  EXPECT_EQ(processed({.min_tokens = 2}, {1, 1}), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(processed({.forced_bos_token = 2}, {}), (Values{kNever, kNever, 0, kNever, kNever}));
  EXPECT_EQ(processed({.forced_bos_token = 2}, {1}), (Values{0, 1, 2, 3, 4}));
  // A constraint comes before what is forced.
  const at::Tensor constrained = at::tensor({1.0, kNever}, at::kDouble);
  process_logits(constrained, {.forced_bos_token = 1}, {.prompt = std::vector<int32_t>{0}});
  EXPECT_EQ(constrained[0].item<double>(), 1);
  EXPECT_THROW(sample(at::full({5}, kNever, at::kDouble), {}, 0), Error);
  EXPECT_THROW(sample(at::full({5}, NAN, at::kDouble), {}, 0), Error);
}

}  // namespace
}  // namespace colossal::serve
