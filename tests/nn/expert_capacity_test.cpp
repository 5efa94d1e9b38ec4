#include "colossal/nn/expert_capacity.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "colossal/ops/expert_order.h"
#include "colossal/ops/random.h"

namespace colossal::nn {
namespace {

TEST(ExpertCapacity, IsAShareOfTheSequence) {
  RouterOptions options{.experts = 6, .chosen = 2, .capacity_factor = 1};
  EXPECT_EQ(capacity_of(options, 9), 3);
  EXPECT_EQ(capacity_of(options, 10), 4);
  options.capacity_factor = 0.01;
  EXPECT_EQ(capacity_of(options, 9), 1);
}

// By sorting the tokens of each sequence for each expert.
TEST(ExpertCapacity, KeepsTheLargestWeightsOfEachSequence) {
  constexpr int64_t kSequences = 3, kPositions = 11, kExperts = 5, kChosen = 2, kTokens = 33;
  const RouterOptions options{.experts = kExperts, .chosen = kChosen, .capacity_factor = 0.8};
  const int64_t capacity = capacity_of(options, kPositions);
  EXPECT_EQ(capacity, 4);
  at::Tensor scores = at::empty({kTokens * kExperts}, at::kDouble);
  ops::fill_normal(scores, 0, ops::parameter_stream(1, "scores"), 0, 1);
  scores = (scores * 4).round().view({kTokens, kExperts}).div(4);  // some are equal
  const Routing routing = choose_experts(scores, {}, options);
  StepContext context = make_step_context(kSequences, kPositions, at::kCPU);
  context.tokens().whole_sequence = kPositions;
  const at::Tensor found = within_capacity(routing, options, context, 0, nullptr);

  at::Tensor expected = routing.experts.clone();
  int64_t dropped = 0;
  for (int64_t sequence = 0; sequence < kSequences; ++sequence) {
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      std::vector<std::tuple<double, int64_t, int64_t>> takers;  // -weight, token, which choice
      for (int64_t token = sequence * kPositions; token < (sequence + 1) * kPositions; ++token) {
        for (int64_t choice = 0; choice < kChosen; ++choice) {
          if (routing.experts[token][choice].item<int64_t>() != expert) continue;
          const double weight = routing.weights[token][choice].item<double>();
          takers.emplace_back(-std::nearbyint(weight * 65536), token, choice);
        }
      }
      std::ranges::sort(takers);
      for (size_t i = capacity; i < takers.size(); ++i, ++dropped) {
        expected[std::get<1>(takers[i])][std::get<2>(takers[i])] = kExperts;
      }
    }
  }
  EXPECT_GT(dropped, 3);
  EXPECT_TRUE(at::equal(found, expected));
}

// Results and gradients are those of the choices that are left.
TEST(ExpertCapacity, WhatIsDroppedAddsNothing) {
  const at::Tensor experts = at::tensor({0, 2, 3, 1, 1, 3, 3, 3}, at::kLong).view({4, 2});
  const ops::ExpertOrder order = ops::order_by_expert(experts, 3);
  EXPECT_THAT(order.counts, testing::ElementsAre(1, 2, 1));
  const auto leaf = [](std::vector<int64_t> shape, const char* name) {
    const at::Tensor made = at::empty(shape, at::kDouble);
    ops::fill_normal(made.view(-1), 0, ops::parameter_stream(2, name), 0, 1);
    return made.set_requires_grad(true);
  };
  const at::Tensor x = leaf({4, 5}, "x"), weights = leaf({4, 2}, "weights");
  const at::Tensor rows = ops::rows_by_expert(x, order);
  EXPECT_EQ(rows.size(0), 4);
  const at::Tensor factors = at::tensor({2.0, 3.0, 5.0}, at::kDouble);
  const at::Tensor by_row = factors.index_select(0, at::tensor({0, 1, 1, 2}, at::kLong));
  const at::Tensor y = ops::sum_over_experts(rows * by_row.unsqueeze(1), weights, order);

  at::Tensor of_choice = at::cat({factors, at::zeros({1}, at::kDouble)});
  of_choice = of_choice.index_select(0, experts.flatten()).view({4, 2});
  const at::Tensor expected = x * (of_choice * weights).sum(1, /*keepdim=*/true);
  EXPECT_TRUE(at::allclose(y, expected, 1e-13));
  const at::Tensor upstream = leaf({4, 5}, "upstream").detach();
  const auto found = torch::autograd::grad({y}, {x, weights}, {upstream});
  const auto gradients = torch::autograd::grad({expected}, {x, weights}, {upstream});
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::allclose(found[i], gradients[i], 1e-12)) << i;
  }
}

}  // namespace
}  // namespace colossal::nn
