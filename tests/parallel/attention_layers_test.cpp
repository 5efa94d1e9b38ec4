// Attention layers that the builders of every layout make: heads of a rank have the slopes and
// sinks of their places among all heads, and gradients of sinks add up to those of one rank.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "colossal/layout/heads.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_builder.h"
#include "colossal/parallel/builder.h"
#include "colossal/parallel/sequence/positions.h"
#include "tests/support/layout_cases.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::attention_layers {
namespace {

constexpr int64_t kHeads = 6, kKeyHeads = 3, kHeadSize = 8, kSequence = 50, kMemory = 20;

enum class Kind { plain, with_everything, to_memory };

nn::AttentionOptions options_of(Kind kind) {
  nn::AttentionOptions options{
      .heads = kHeads, .kv_heads = kKeyHeads, .head_size = kHeadSize, .scale = 0.4};
  options.causal = kind != Kind::to_memory;
  if (kind == Kind::plain) return options;
  options.soft_cap = 1.5;
  options.sinks = nn::Initializer::normal(1);
  if (kind == Kind::to_memory) return options;
  options.window = 13;
  options.alibi = 0.7;
  return options;
}

// All samples are alike, so that it does not matter which of them a rank has.
at::Tensor numbers(int64_t batch, int64_t positions, int64_t heads, double shift) {
  return (at::arange(positions * heads * kHeadSize, at::kDouble) + shift)
      .sin_()
      .view({1, positions, heads, kHeadSize})
      .repeat({batch, 1, 1, 1});
}

// [batch, positions, heads, head_size] but for the gradient of the sinks.
struct Results {
  at::Tensor output, of_queries, of_keys, of_values, of_sinks;
};

struct Inputs {
  at::Tensor queries, keys, values, output_gradient;
};

Inputs all_inputs(int64_t batch, Kind kind) {
  const int64_t keys = kind == Kind::to_memory ? kMemory : kSequence;
  return {numbers(batch, kSequence, kHeads, 0), numbers(batch, keys, kKeyHeads, 0.3),
          numbers(batch, keys, kKeyHeads, 0.6), numbers(batch, kSequence, kHeads, 0.9)};
}

Results run_layer(nn::Builder& builder, Kind kind, const Inputs& in,
                  const nn::StepContext& context) {
  const nn::AttentionOptions options = options_of(kind);
  std::unique_ptr<nn::Attention> attention;
  std::unique_ptr<nn::CrossAttention> cross;
  if (kind == Kind::to_memory) {
    cross = builder.cross_attention("attention", options);
  } else {
    attention = builder.attention("attention", options);
  }
  std::vector<at::Tensor> leaves{in.queries.detach().requires_grad_(),
                                 in.keys.detach().requires_grad_(),
                                 in.values.detach().requires_grad_()};
  for (const nn::ParameterHandle& sinks : builder.parameters()) {
    const auto& held = sinks->placement.held;
    const Range range = held.empty() ? Range{0, kHeads} : held[0].front();
    sinks->tensor = at::linspace(-1, 2, kHeads, at::kDouble)
                        .narrow(0, range.begin, range.size())
                        .clone()
                        .requires_grad_();
    leaves.push_back(sinks->tensor);
  }
  const at::Tensor result =
      cross ? cross->forward(leaves[0].flatten(2), at::cat({leaves[1], leaves[2]}, 2).flatten(2),
                             context)
            : attention->forward(at::cat({leaves[0], leaves[1], leaves[2]}, 2).flatten(2), {},
                                 context);
  const at::Tensor output = result.unflatten(2, {-1, kHeadSize});
  auto gradients = torch::autograd::grad({output}, leaves, {in.output_gradient});
  gradients.resize(4);
  return {output.detach(), gradients[0], gradients[1], gradients[2], gradients[3]};
}

nn::StepContext context_of(int64_t batch, int64_t sequence) {
  nn::StepContext context = nn::make_step_context(batch, sequence, at::kCPU);
  context.tokens().whole_sequence = kSequence;
  return context;
}

nn::TokenGrid memory_grid(int64_t batch, int64_t positions) {
  nn::TokenGrid grid = nn::make_token_grid(batch, positions, at::kCPU);
  grid.whole_sequence = kMemory;
  return grid;
}

void expect_near(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_LE((a - b).norm().item<double>(), 1e-12 * b.norm().item<double>());
}

int heads_coordinate(const ParallelContext& context) {
  switch (context.strategy().tensor_mode) {
    case TensorMode::one_d:
      return context.coordinate(Axis::tp);
    case TensorMode::two_d:
    case TensorMode::two_and_half_d:
      return context.coordinate({"tp.column"});
    case TensorMode::three_d:
      return context.coordinate({"tp.l"});
  }
  return 0;
}

void expect_equal_to_serial(const Strategy& given, Kind kind) {
  TRACED_CASE(layout_name(given));
  Strategy strategy = given;
  strategy.key_value_replicas = key_value_replicas(kHeads, kKeyHeads, strategy.head_ranks());
  const bool grid = strategy.tensor_mode != TensorMode::one_d;
  const int rows = grid ? strategy.tp / strategy.tensor_side() : 1;
  const int64_t batch = 2 * rows;
  nn::DenseBuilder dense;
  const Results whole =
      run_layer(dense, kind, all_inputs(batch, kind), context_of(batch, kSequence));
  run_ranks(strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, strategy);
    const parallel::Sharding sharding{.hidden_size = kHeads * kHeadSize,
                                      .heads = kHeads,
                                      .kv_heads = kKeyHeads,
                                      .head_size = kHeadSize};
    const auto builder = parallel::make_builder(context, {sharding});
    const nn::LocalHeads here =
        local_heads_of(kHeads, kKeyHeads, strategy.head_ranks(), heads_coordinate(context));
    std::vector<at::Tensor> runs;
    for (const Range& run : parallel::positions_of_rank(
             strategy.sequence_mode, kSequence, strategy.sp, context.coordinate(Axis::sp))) {
      runs.push_back(at::arange(run.begin, run.end, at::kLong));
    }
    const at::Tensor positions = at::cat(runs);
    const auto cut = [&](const at::Tensor& x, const Range& heads) {
      return x.narrow(0, 0, 2).narrow(2, heads.begin, heads.size());
    };
    const auto at_positions = [&](const at::Tensor& x, const Range& heads) {
      return cut(x, heads).index_select(1, positions);
    };
    const at::Tensor memory_positions = parallel::positions_here(kMemory, context);
    const auto of_keys = [&](const at::Tensor& x) {
      return kind == Kind::to_memory ? cut(x, here.keys).index_select(1, memory_positions)
                                     : at_positions(x, here.keys);
    };
    const Inputs in = all_inputs(batch, kind);
    nn::StepContext step = context_of(batch, positions.numel());
    step.tokens().positions = positions;
    if (kind == Kind::to_memory) {
      step.grids = {memory_grid(batch, memory_positions.numel()), step.tokens()};
      step.stack = 1;
    }
    const Results found =
        run_layer(*builder, kind,
                  {at_positions(in.queries, here.queries), of_keys(in.keys), of_keys(in.values),
                   at_positions(in.output_gradient, here.queries)},
                  step);
    expect_near(found.output, at_positions(whole.output, here.queries));
    expect_near(found.of_queries, at_positions(whole.of_queries, here.queries));
    if (strategy.key_value_replicas == 1) {
      expect_near(found.of_keys, of_keys(whole.of_keys));
      expect_near(found.of_values, of_keys(whole.of_values));
    }
    if (!found.of_sinks.defined()) return;
    const auto& placement = builder->parameters().front()->placement;
    const at::Tensor sum = found.of_sinks.contiguous();
    comm::all_reduce(sum, placement.reduction ? *placement.reduction : context.data_group(),
                     comm::Reason::gradient);
    expect_near(sum, whole.of_sinks.narrow(0, here.queries.begin, here.queries.size()));
  });
}

TEST(AttentionLayers, OfEveryBuilderEqualTheSerialOne) {
  for (const Kind kind : {Kind::plain, Kind::with_everything}) {
    for (const Strategy& strategy :
         {Strategy{.tp = 2},
          {.tp = 3},
          {.tp = 5},
          {.sp = 3},
          {.sp = 3, .sequence_mode = SequenceMode::ulysses},
          {.sp = 2, .tp = 2},
          {.sp = 2, .tp = 3, .sequence_mode = SequenceMode::ulysses},
          {.tp = 4, .tensor_mode = TensorMode::two_d},
          {.sp = 2, .tp = 4, .tensor_mode = TensorMode::two_d},
          {.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2},
          {.tp = 8, .tensor_mode = TensorMode::three_d}}) {
      expect_equal_to_serial(strategy, kind);
    }
  }
}

TEST(AttentionLayers, CrossAttentionOfEveryBuilderEqualsTheSerialOne) {
  for (const Strategy& strategy : {Strategy{.tp = 2},
                                   {.tp = 3},
                                   {.sp = 3},
                                   {.sp = 3, .sequence_mode = SequenceMode::ulysses},
                                   {.sp = 2, .tp = 2},
                                   {.tp = 4, .tensor_mode = TensorMode::two_d},
                                   {.sp = 2, .tp = 4, .tensor_mode = TensorMode::two_d},
                                   {.tp = 8, .tensor_mode = TensorMode::three_d}}) {
    expect_equal_to_serial(strategy, Kind::to_memory);
  }
}

}  // namespace
}  // namespace colossal::test::attention_layers
