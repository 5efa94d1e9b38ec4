// Rows of a batch with positions of their own, at every tensor mode: what a rank adds to its share
// of the activation is that share of the rows of the table.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "colossal/mesh/parallel_context.h"
#include "colossal/parallel/builder.h"
#include "tests/support/resident.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::row_positions {
namespace {

constexpr int64_t kBatch = 5, kSequence = 7, kFeatures = 6, kFirstRow = 2, kRows = 60;

at::Tensor columns(const at::Tensor& x, const nn::Parameter& table) {
  if (table.placement.held.empty()) return x;
  std::vector<at::Tensor> parts;
  for (const Range& run : table.placement.held[1]) {
    parts.push_back(x.narrow(-1, run.begin, run.size()));
  }
  return at::cat(parts, -1);
}

void expect_rows_of_the_table(const Strategy& strategy) {
  // Number i of row r of the table is 100 r + i.
  const at::Tensor table = at::arange(kRows).mul(100.0).unsqueeze(1) + at::arange(kFeatures);
  const at::Tensor positions =
      at::arange(kBatch * kSequence, at::kLong).view({kBatch, kSequence}).mul(11).remainder(50);
  const at::Tensor whole = at::embedding(table, positions + kFirstRow);  // of all tokens
  run_ranks(strategy.world_size(), [&](comm::World& world) {
    const ParallelContext context(world, strategy);
    const parallel::Sharding sharding{
        .hidden_size = kFeatures, .heads = 8, .kv_heads = 8, .head_size = 2};
    const auto build = parallel::make_builder(context, {sharding});
    const auto layer = build->position_embedding(
        "positions", {.vocabulary = kRows, .features = kFeatures, .first_row = kFirstRow});
    nn::Parameter& parameter = *build->parameters().front();
    Resident here;
    parameter.residency = &here;
    parameter.tensor = columns(table, parameter).contiguous();
    nn::StepContext step = nn::make_step_context(kBatch, kSequence, at::kCPU);
    step.tokens().positions = positions;
    const at::Tensor found = layer->forward(step);
    // The tokens here are a run of all of them, in order of batch and sequence.
    const at::Tensor tokens = columns(whole, parameter).flatten(0, 1);
    const at::Tensor mine = found.reshape({-1, found.size(-1)});
    bool is_run = false;
    for (int64_t begin = 0; begin + mine.size(0) <= tokens.size(0); ++begin) {
      is_run |= mine.equal(tokens.narrow(0, begin, mine.size(0)));
    }
    EXPECT_TRUE(is_run) << "rank " << world.rank();
    const at::Tensor count = at::full({1}, mine.numel(), at::kDouble);
    comm::all_reduce(count, context.world_group(), comm::Reason::control);
    const int copies =
        strategy.tensor_mode == TensorMode::one_d && !strategy.tp_sequence ? strategy.tp : 1;
    EXPECT_EQ(count.item<double>(), copies * whole.numel());
  });
}

TEST(RowPositions, OfATableAreThoseOfTheTokensHere) {
  expect_rows_of_the_table({});
  expect_rows_of_the_table({.tp = 3, .tp_sequence = false});
  expect_rows_of_the_table({.tp = 3});
  expect_rows_of_the_table({.tp = 4, .tensor_mode = TensorMode::two_d});
  expect_rows_of_the_table({.tp = 8, .tensor_mode = TensorMode::two_and_half_d, .tp_depth = 2});
  expect_rows_of_the_table({.tp = 8, .tensor_mode = TensorMode::three_d});
}

}  // namespace
}  // namespace colossal::test::row_positions
