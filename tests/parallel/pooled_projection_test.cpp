// The vector of each row from its tokens, at every tensor mode: values, gradients and bytes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/pooled_projection.h"
#include "colossal/parallel/builder.h"
#include "tests/support/layout_cases.h"
#include "tests/support/resident.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::pooled_projection {
namespace {

constexpr int64_t kBatch = 5, kSequence = 7, kFeatures = 10, kOut = 3;

at::Tensor waves(std::vector<int64_t> sizes, double step) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return (at::arange(count, at::kDouble) * step).sin().view(sizes);
}

// Of the whole parameter, the columns that this rank holds.
at::Tensor columns(const at::Tensor& x, const nn::Parameter& parameter) {
  if (parameter.placement.held.empty()) return x;
  std::vector<at::Tensor> parts;
  for (const Range& run : parameter.placement.held.back()) {
    parts.push_back(x.narrow(-1, run.begin, run.size()));
  }
  return at::cat(parts, -1);
}

// Pools the rows of a table of positions, of which each sequence has its own. Bytes: of the
// all-reduces over all ranks. divided: whether ranks divide activations.
void expect_like_dense(const Strategy& strategy, bool divided) {
  TRACED_CASE(layout_name(strategy));
  const at::Tensor table = waves({60, kFeatures}, 0.7), weight = waves({kOut, kFeatures}, 1.3);
  const at::Tensor bias = waves({kOut}, 2.1), upstream = waves({kBatch, kOut}, 0.9);
  const at::Tensor pooling = waves({kBatch, kSequence}, 3.7);
  const at::Tensor positions =
      at::arange(kBatch * kSequence, at::kLong).view({kBatch, kSequence}).mul(11).remainder(60);
  const at::Tensor leaf = table.clone().requires_grad_(true);
  const at::Tensor expected = at::matmul(pooling.unsqueeze(1), at::embedding(leaf, positions))
                                  .squeeze(1)
                                  .matmul(weight.t()) +
                              pooling.sum(1, true) * bias;
  (expected * upstream).sum().backward();
  const int64_t bytes = divided ? 2 * (strategy.tp - 1) * kBatch * kFeatures * 8 : 0;
  run_ranks(strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, strategy);
    const parallel::Sharding sharding{
        .hidden_size = kFeatures, .heads = 8, .kv_heads = 8, .head_size = 2};
    const auto build = parallel::make_builder(context, {sharding});
    const auto rows =
        build->position_embedding("positions", {.vocabulary = 60, .features = kFeatures});
    const nn::PooledProjection layer(
        *build, "pooled", {.in_features = kFeatures, .out_features = kOut, .bias = true});
    Resident here;
    const at::Tensor values[] = {table, weight, bias};
    for (size_t i = 0; i < 3; ++i) {
      nn::Parameter& parameter = *build->parameters()[i];
      parameter.residency = &here;
      parameter.tensor = columns(values[i], parameter).clone().requires_grad_(true);
    }
    nn::StepContext step = nn::make_step_context(kBatch, kSequence, at::kCPU);
    step.tokens().positions = positions;
    const at::Tensor x = rows->forward(step);
    world.ledger().reset();
    const at::Tensor found = layer.forward(x, pooling, step);
    (found * upstream).sum().backward();
    const at::Tensor sent = at::zeros({1}, at::kDouble);
    for (const auto& [key, traffic] : world.ledger().entries()) {
      EXPECT_EQ(key.reason, comm::Reason::tensor);
      sent.add_(static_cast<double>(traffic.law_bytes));
    }
    comm::all_reduce(sent, context.world_group(), comm::Reason::control);
    EXPECT_EQ(sent.item<double>(), bytes);
    EXPECT_TRUE(at::allclose(found, expected, 1e-12, 1e-12));
    // Each rank has the gradients of its tokens; all ranks of tp have that of the projection.
    const at::Tensor of_table = build->parameters()[0]->tensor.grad();
    const at::Tensor whole = at::zeros_like(table);
    const auto& held = build->parameters()[0]->placement.held;
    const Range features = held.empty() ? Range{0, kFeatures} : held.back().front();
    whole.narrow(1, features.begin, features.size()).copy_(of_table);
    comm::all_reduce(whole.view(-1), context.world_group(), comm::Reason::control);
    EXPECT_TRUE(at::allclose(divided ? whole : whole / strategy.tp, leaf.grad(), 1e-12, 1e-12));
    const at::Tensor pooled = at::matmul(pooling.unsqueeze(1), at::embedding(table, positions));
    EXPECT_TRUE(at::allclose(build->parameters()[1]->tensor.grad(),
                             upstream.t().matmul(pooled.squeeze(1)), 1e-12, 1e-12));
  });
}

TEST(PooledProjection, IsThatOfOneRankAtEveryTensorMode) {
  expect_like_dense({}, false);
  expect_like_dense({.tp = 3, .tp_sequence = false}, false);
  expect_like_dense({.tp = 3}, true);
  expect_like_dense({.tp = 4, .tensor_mode = TensorMode::two_d}, true);
  expect_like_dense({.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2}, true);
  expect_like_dense({.tp = 8, .tensor_mode = TensorMode::three_d}, true);
}

}  // namespace
}  // namespace colossal::test::pooled_projection
