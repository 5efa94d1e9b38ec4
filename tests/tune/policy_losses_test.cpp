// Compares the formulas with TRL's trainers: policy_golden.json, which policy_golden.py writes.
#include "colossal/tune/methods/policy_losses.h"
#include "colossal/ops/loss/divergence.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "colossal/tune/methods/advantages.h"

namespace colossal::tune {
namespace {

constexpr double kPolicyTolerance = 1e-12;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const nlohmann::json& policy_golden() {
  static const nlohmann::json content = nlohmann::json::parse(
      std::ifstream(COLOSSAL_TEST_SOURCE_DIR "/tests/tune/policy_golden.json"));
  return content;
}

at::Tensor matrix(const nlohmann::json& rows) {
  std::vector<double> values;
  for (const nlohmann::json& row : rows) {
    for (const nlohmann::json& value : row) values.push_back(value.get<double>());
  }
  return at::tensor(values, at::kDouble).view({std::ssize(rows), -1});
}

at::Tensor list(const nlohmann::json& values) {
  return at::tensor(values.get<std::vector<double>>(), at::kDouble);
}

PolicyScores given_scores() {
  return {.log_probability = matrix(policy_golden().at("policy")).set_requires_grad(true),
          .old = matrix(policy_golden().at("old")),
          .reference = matrix(policy_golden().at("reference")),
          .mask = matrix(policy_golden().at("mask")),
          .advantages = list(policy_golden().at("advantages"))};
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(PolicyLosses, OfGrpoAreThoseOfTrl) {
  ASSERT_EQ(policy_golden().at("grpo").size(), 36u);
  for (const auto& [name, expected] : policy_golden().at("grpo").items()) {
    SCOPED_TRACE(name);
    const PolicyScores scores = given_scores();
    PolicyOptions options{.loss_type = expected.at("type"),
                          .epsilon_low = 0.2,
                          .epsilon_high = expected.at("epsilon_high"),
                          .beta = expected.at("beta"),
                          .corrects_kl = expected.at("corrects")};
    if (!expected.at("delta").is_null()) options.delta = expected.at("delta").get<double>();
    const at::Tensor lengths = scores.mask.sum(1);
    at::Tensor means;
    if (expected.at("level") == "sequence") {
      options.importance_level = ImportanceLevel::sequence;
      means = log_ratios(scores).sum(1) / lengths;
    }
    const PolicyLoss found = policy_loss(scores, options, means);
    const at::Tensor weights = token_weights(options.loss_type, lengths,
                                             {.mean_length = lengths.mean().item<double>(),
                                              .max_length = policy_golden().at("max_length")});
    const at::Tensor loss = (found.loss.sum(1) * weights).mean();
    EXPECT_NEAR(loss.item<double>(), expected.at("loss").get<double>(), kPolicyTolerance);
    const at::Tensor gradient = torch::autograd::grad({loss}, {scores.log_probability}).front();
    EXPECT_LE(largest_difference(gradient, matrix(expected.at("gradient"))), kPolicyTolerance);
    if (options.beta != 0) {
      EXPECT_NEAR((found.kl.sum() / lengths.sum()).item<double>(),
                  expected.at("metrics").at("kl").get<double>(), kPolicyTolerance);
    }
  }
}

TEST(PolicyLosses, ThatAreCorrectedAreThoseOfTrl) {
  const auto modes = config_names(ImportanceCorrection());
  for (const nlohmann::json& expected : policy_golden().at("corrected")) {
    const std::string mode = expected.at("mode");
    SCOPED_TRACE(mode + " " + expected.at("clip_min").dump());
    const auto correction =
        std::ranges::find(modes, mode, &std::pair<std::string, ImportanceCorrection>::first)
            ->second;
    PolicyScores scores = given_scores();
    const at::Tensor ratios = (scores.old - scores.reference) * scores.mask;
    ImportanceBounds bounds{.clip_max = expected.at("clip_max").get<double>()};
    if (!expected.at("clip_min").is_null()) bounds.clip_min = expected.at("clip_min").get<double>();
    scores.importance = importance_weights(
        is_of_sequences(correction) ? ratios.sum(1, /*keepdim=*/true) : ratios, correction, bounds);
    const PolicyLoss found =
        policy_loss(scores, {.epsilon_low = 0.2, .epsilon_high = 0.28, .beta = 0.3});
    const at::Tensor loss = found.loss.sum() / scores.mask.sum();
    EXPECT_NEAR(loss.item<double>(), expected.at("loss").get<double>(), kPolicyTolerance);
    const at::Tensor gradient = torch::autograd::grad({loss}, {scores.log_probability}).front();
    EXPECT_LE(largest_difference(gradient, matrix(expected.at("gradient"))), kPolicyTolerance);
  }
}

TEST(PolicyLosses, ClippedShareIsThatOfTrl) {
  const nlohmann::json& expected = policy_golden().at("grpo").at("dapo/token/0.0/None/False");
  const PolicyLoss found = policy_loss(given_scores(), {.epsilon_low = 0.2, .epsilon_high = 0.28});
  const double tokens = given_scores().mask.sum().item<double>();
  for (const auto& [name, clipped] : {std::pair{"clip_ratio/low_mean", found.clipped_low},
                                      std::pair{"clip_ratio/high_mean", found.clipped_high}}) {
    const double share = clipped.sum().item<double>() / tokens;
    EXPECT_GT(share, 0);
    EXPECT_NEAR(share, expected.at("metrics").at(name).get<double>(), 1e-6) << name;
  }
}

// If nothing was updated since a completion was sampled, ratios are 1, nothing is clipped, and the
// gradient is that of the advantage times the log-probability.
TEST(PolicyLosses, OnPolicyTheGradientIsThePolicyGradient) {
  for (const char* type : {"dapo", "sapo"}) {
    PolicyScores scores = given_scores();
    scores.old = scores.log_probability.detach();
    const PolicyLoss found = policy_loss(scores, {.loss_type = type});
    const at::Tensor gradient =
        torch::autograd::grad({found.loss.sum()}, {scores.log_probability}).front();
    EXPECT_LE(largest_difference(gradient, -scores.advantages.unsqueeze(1) * scores.mask),
              kPolicyTolerance);
    EXPECT_EQ(found.clipped_low.sum().item<double>(), 0);
  }
}

TEST(PolicyLosses, OfRlooAreThoseOfTrl) {
  const PolicyScores scores = given_scores();
  const at::Tensor now = (scores.log_probability * scores.mask).sum(1);
  const at::Tensor old = (scores.old * scores.mask).sum(1);
  const at::Tensor loss = rloo_loss(now, old, scores.advantages, 0.2, 0.28).mean();
  const nlohmann::json& expected = policy_golden().at("rloo");
  EXPECT_NEAR(loss.item<double>(), expected.at("loss").get<double>(), kPolicyTolerance);
  const at::Tensor gradient = torch::autograd::grad({loss}, {scores.log_probability}).front();
  EXPECT_LE(largest_difference(gradient, matrix(expected.at("gradient"))), kPolicyTolerance);
}

TEST(PolicyLosses, OfDistillationAreThoseOfTrl) {
  for (const nlohmann::json& expected : policy_golden().at("distillation")) {
    const double beta = expected.at("beta");
    SCOPED_TRACE(beta);
    const at::Tensor student = matrix(expected.at("student")[0]).set_requires_grad(true);
    const at::Tensor teacher = matrix(expected.at("teacher")[0]);
    const at::Tensor loss = ops::divergence(student / 0.9, teacher / 0.9, beta).sum();
    EXPECT_NEAR(loss.item<double>(), expected.at("loss").get<double>(), kPolicyTolerance);
    const at::Tensor gradient = torch::autograd::grad({loss}, {student}).front();
    EXPECT_LE(largest_difference(gradient, matrix(expected.at("gradient")[0])), kPolicyTolerance);
  }
}

TEST(PolicyLosses, OfValuesAreTheirFormula) {
  const at::Tensor values = at::tensor({1.0, 2.0, -1.0}, at::kDouble);
  const at::Tensor old = at::tensor({0.9, 1.0, -1.5}, at::kDouble);
  const at::Tensor returns = at::tensor({2.0, 1.5, -1.0}, at::kDouble);
  // Clipped to within 0.2: 1, 1.2, -1.3.
  const at::Tensor expected = at::tensor({0.5, 0.5 * 0.25, 0.5 * 0.09}, at::kDouble);
  EXPECT_LE(largest_difference(value_loss(values, old, returns, 0.2), expected), 1e-12);
}

TEST(Advantages, OfGroupsAreTheirFormula) {
  const at::Tensor rewards = at::tensor({1.0, 2.0, 3.0, 5.0, 5.0, 5.0}, at::kDouble);
  const Advantages found = group_advantages(rewards, 3, RewardScale::group);
  EXPECT_NEAR(found.advantages[0].item<double>(), -1 / (1 + 1e-4), 1e-12);
  EXPECT_EQ(found.advantages[4].item<double>(), 0);
  EXPECT_EQ(found.fraction_with_equal_rewards, 0.5);
  EXPECT_EQ(group_advantages(rewards, 3, RewardScale::none).advantages[2].item<double>(), 1);
  const double of_all = std::sqrt((6.25 + 2.25 + 0.25 + 3 * 2.25) / 5);
  EXPECT_NEAR(group_advantages(rewards, 3, RewardScale::batch).advantages[2].item<double>(),
              1 / (of_all + 1e-4), 1e-12);
}

TEST(Advantages, LeaveOutWhatHasNoReward) {
  const at::Tensor rewards = at::tensor({1.0, kNan, 3.0, kNan, kNan, kNan}, at::kDouble);
  const at::Tensor found = group_advantages(rewards, 3, RewardScale::none).advantages;
  EXPECT_LE(largest_difference(found, at::tensor({-1.0, 0.0, 1.0, 0.0, 0.0, 0.0}, at::kDouble)),
            1e-12);
  const at::Tensor others = leave_one_out_advantages(rewards, 3, false).advantages;
  EXPECT_LE(largest_difference(others, at::tensor({-2.0, 0.0, 2.0, 0.0, 0.0, 0.0}, at::kDouble)),
            1e-12);
}

TEST(Advantages, LeaveOneOutIsItsFormula) {
  const at::Tensor rewards = at::tensor({1.0, 2.0, 6.0}, at::kDouble);
  const at::Tensor found = leave_one_out_advantages(rewards, 3, false).advantages;
  EXPECT_LE(largest_difference(found, at::tensor({-3.0, -1.5, 4.5}, at::kDouble)), 1e-12);
}

// Compares with the sum that the recursion computes: A_t = sum over l of (gamma lambda)^l
// delta_(t+l).
TEST(Advantages, OfTokensAreTheSumOfWhatFollows) {
  const double gamma = 0.9, lambda = 0.8;
  const std::vector<double> rewards{0.1, -0.2, 1.0}, values{0.5, 0.4, -0.3};
  const at::Tensor mask = at::tensor({1.0, 1.0, 1.0, 0.0}, at::kDouble).unsqueeze(0);
  const auto padded = [](std::vector<double> row) {
    row.push_back(7);  // padding
    return at::tensor(row, at::kDouble).unsqueeze(0);
  };
  const Estimates found =
      generalized_advantages(padded(rewards) * mask, padded(values), mask, gamma, lambda);
  for (int t = 0; t < 3; ++t) {
    double expected = 0;
    for (int l = t; l < 3; ++l) {
      const double next = l + 1 < 3 ? values[l + 1] : 0;
      expected += std::pow(gamma * lambda, l - t) * (rewards[l] + gamma * next - values[l]);
    }
    EXPECT_NEAR(found.advantages[0][t].item<double>(), expected, 1e-12);
    EXPECT_NEAR(found.returns[0][t].item<double>(), expected + values[t], 1e-12);
  }
  EXPECT_EQ(found.advantages[0][3].item<double>(), 0);
}

TEST(Advantages, WhitenedHaveMeanZeroAndDeviationOne) {
  const at::Tensor x = at::tensor({1.0, 4.0, 100.0, -2.0}, at::kDouble);
  const at::Tensor mask = at::tensor({1.0, 1.0, 0.0, 1.0}, at::kDouble);
  const at::Tensor found = whitened(x, mask);
  EXPECT_NEAR(found.sum().item<double>(), 0, 1e-12);
  EXPECT_NEAR((found.square().sum() / 2).item<double>(), 1, 1e-8);
  EXPECT_EQ(found[2].item<double>(), 0);
  EXPECT_NEAR((whitened(x, mask, false).sum() / 3).item<double>(), 1, 1e-12);
}

}  // namespace
}  // namespace colossal::tune
