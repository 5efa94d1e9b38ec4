#include "colossal/optim/optimizer.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"

namespace colossal::optim {
namespace {

// Loshchilov & Hutter 2019, algorithm 2, in plain arithmetic.
struct Reference {
  double weight, first = 0, second = 0;
  void update(double gradient, int64_t t, const OptimizerConfig& config) {
    const double b1 = config.adam_betas[0], b2 = config.adam_betas[1];
    weight *= 1 - config.learning_rate * config.weight_decay;
    first = b1 * first + (1 - b1) * gradient;
    second = b2 * second + (1 - b2) * gradient * gradient;
    const double first_hat = first / (1 - std::pow(b1, t));
    const double second_hat = second / (1 - std::pow(b2, t));
    weight -= config.learning_rate * first_hat / (std::sqrt(second_hat) + 1e-8);
  }
};

TEST(AdamW, FollowsThePaper) {
  const OptimizerConfig config{.learning_rate = 0.01, .weight_decay = 0.1};
  const auto optimizer = make_optimizer("adamw", config);
  EXPECT_THAT(optimizer->state_names(), testing::ElementsAre("exp_avg", "exp_avg_sq"));
  Piece piece;
  piece.master = at::linspace(-1, 1, 37, at::kDouble);
  piece.state = {at::zeros({37}, at::kDouble), at::zeros({37}, at::kDouble)};
  std::vector<Reference> reference;
  for (int64_t i = 0; i < 37; ++i) reference.push_back({piece.master[i].item<double>()});
  for (int64_t t = 1; t <= 5; ++t) {
    piece.gradient = at::linspace(-3, 2, 37, at::kDouble).mul(static_cast<double>(t) - 2.5);
    optimizer->update(piece, {.learning_rate = config.learning_rate,
                              .weight_decay = config.weight_decay,
                              .gradient_scale = 0.5,
                              .update = t});
    for (int64_t i = 0; i < 37; ++i) {
      reference[i].update(0.5 * piece.gradient[i].item<double>(), t, config);
      EXPECT_NEAR(piece.master[i].item<double>(), reference[i].weight, 1e-14);
    }
  }
}

TEST(AdamW, WorkingWeightsAreTheMastersRounded) {
  const auto optimizer = make_optimizer("adamw", {});
  Piece piece;
  piece.master = at::linspace(-1, 1, 100, at::kFloat);
  piece.working = at::zeros({100}, at::kBFloat16);
  piece.gradient = at::linspace(2, -1, 100, at::kFloat).to(at::kBFloat16);
  piece.state = {at::zeros({100}, at::kFloat), at::zeros({100}, at::kFloat)};
  optimizer->update(piece, {.learning_rate = 0.1});
  EXPECT_TRUE(at::equal(piece.working, piece.master.to(at::kBFloat16)));
}

TEST(MakeOptimizer, RefusesWhatCannotWork) {
  EXPECT_THROW(make_optimizer("adamx", {}), ConfigError);
  EXPECT_THROW(make_optimizer("adamw", {.betas = {{0.9}}}), ConfigError);
  EXPECT_THROW(make_optimizer("adamw", {.betas = {{0.9, 1.0}}}), ConfigError);
  EXPECT_THROW(make_optimizer("came", {.betas = {{0.9, 0.99}}}), ConfigError);
  EXPECT_THROW(make_optimizer("sgd", {.momentum = 1}), ConfigError);
  EXPECT_THROW(make_optimizer("sgd", {.nesterov = true}), ConfigError);
}

}  // namespace
}  // namespace colossal::optim
