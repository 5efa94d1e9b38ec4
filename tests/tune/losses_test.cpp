// Compares the formulas with TRL's trainers: trl_golden.json, which trl_golden.py writes.
#include "colossal/tune/methods/losses.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace colossal::tune {
namespace {

constexpr double kGoldenTolerance = 1e-12;  // TRL computes in fp64
constexpr double kNarrowTolerance = 1e-6;   // except ORPO, and the smoothing of exo_pair

const nlohmann::json& golden() {
  static const nlohmann::json content =
      nlohmann::json::parse(std::ifstream(COLOSSAL_TEST_SOURCE_DIR "/tests/tune/trl_golden.json"));
  return content;
}

at::Tensor numbers(const char* name) {
  return at::tensor(golden().at(name).get<std::vector<double>>(), at::kDouble);
}

struct Given {
  at::Tensor policy = numbers("policy").set_requires_grad(true);
  at::Tensor reference = numbers("reference"), lengths = numbers("lengths");

  PairScores pairs() const {
    const auto half = [](const at::Tensor& x, int which) { return x.narrow(0, 4 * which, 4); };
    return {.chosen = half(policy, 0),
            .rejected = half(policy, 1),
            .reference_chosen = half(reference, 0),
            .reference_rejected = half(reference, 1),
            .chosen_tokens = half(lengths, 0),
            .rejected_tokens = half(lengths, 1)};
  }

  void expect(const at::Tensor& losses, const nlohmann::json& expected,
              double tolerance = kGoldenTolerance) const {
    const at::Tensor loss = losses.mean();
    EXPECT_NEAR(loss.item<double>(), expected.at("loss").get<double>(), tolerance);
    const at::Tensor gradient = torch::autograd::grad({loss}, {policy}).front();
    const auto theirs = expected.at("gradient").get<std::vector<double>>();
    for (size_t i = 0; i < theirs.size(); ++i) {
      EXPECT_NEAR(gradient[i].item<double>(), theirs[i], tolerance) << "row " << i;
    }
  }
};

TEST(Losses, OfDpoAreThoseOfTrl) {
  const std::vector<std::string> types = dpo_loss_types();
  EXPECT_EQ(types.size(), 15u);
  for (const auto& [divergence_name, divergence] : config_names(Divergence())) {
    if (divergence == Divergence::alpha_divergence) continue;
    for (const std::string& type : types) {
      SCOPED_TRACE(type + "/" + divergence_name);
      const Given given;
      const DpoOptions options{.beta = golden().at("beta"),
                               .label_smoothing = golden().at("label_smoothing"),
                               .divergence = divergence,
                               .mean_chosen_tokens = given.pairs().chosen_tokens.mean()};
      given.expect(dpo_loss(type, given.pairs(), options),
                   golden().at("dpo").at(type + "/" + divergence_name),
                   type == "exo_pair" ? kNarrowTolerance : kGoldenTolerance);
    }
  }
}

// f'(t) of the alpha-divergence is t - 1 at alpha = 2; at alpha = 0 it is 1 - 1/t, as of forward
// KL; at alpha = 1 it is log t, as of reverse KL.
TEST(Losses, OfAlphaDivergenceHaveTheirLimits) {
  const Given given;
  const auto loss = [&](Divergence divergence, double alpha) {
    return dpo_loss("sigmoid", given.pairs(), {.divergence = divergence, .alpha = alpha});
  };
  const auto expect_equal = [&](double alpha, const at::Tensor& expected) {
    EXPECT_LE((loss(Divergence::alpha_divergence, alpha) - expected).abs().max().item<double>(),
              kGoldenTolerance);
  };
  expect_equal(0, loss(Divergence::forward_kl, 0));
  expect_equal(1, loss(Divergence::reverse_kl, 0));
  const PairScores pairs = given.pairs();
  const at::Tensor difference = (pairs.chosen - pairs.reference_chosen).exp() -
                                (pairs.rejected - pairs.reference_rejected).exp();
  expect_equal(2, (1 + (-0.1 * difference).exp()).log());
}

TEST(Losses, OfCpoAreThoseOfTrl) {
  for (const std::string& type : cpo_loss_types()) {
    for (const auto& [alpha, name] : {std::pair{0.0, "0.0"}, std::pair{0.7, "0.7"}}) {
      SCOPED_TRACE(type + "/" + name);
      const Given given;
      const PairScores scores = uses_token_means(type) ? means_of(given.pairs()) : given.pairs();
      given.expect(cpo_loss(type, scores,
                            {.beta = golden().at("beta"),
                             .label_smoothing = golden().at("label_smoothing"),
                             .simpo_gamma = golden().at("simpo_gamma"),
                             .alpha = alpha}),
                   golden().at("cpo").at(type + "/" + name));
    }
  }
}

TEST(Losses, OfOrpoAreThoseOfTrl) {
  const Given given;
  const double beta = golden().at("beta");
  const at::Tensor odds = log_odds(means_of(given.pairs()));
  given.expect(beta * (1 + (-odds).exp()).log(), golden().at("orpo"), kNarrowTolerance);
}

TEST(Losses, OfKtoAreThoseOfTrl) {
  for (const auto& [type, expected] : golden().at("kto").items()) {
    SCOPED_TRACE(type);
    const Given given;
    const auto label = expected.at("label").get<std::vector<bool>>();
    at::Tensor desirable = at::full({8}, false, at::kBool);
    for (size_t i = 0; i < label.size(); ++i) desirable[i] = static_cast<bool>(label[i]);
    const double kl = type == "kto" ? expected.at("kl").get<double>() : 0;
    given.expect(
        kto_loss(given.policy - given.reference, desirable, at::full({}, kl, at::kDouble),
                 {.beta = golden().at("beta"), .desirable_weight = 1.5, .undesirable_weight = 0.8}),
        expected);
  }
}

}  // namespace
}  // namespace colossal::tune
