#include "colossal/nn/step_context.h"

#include <gtest/gtest.h>

namespace colossal::nn {
namespace {

TEST(StepContext, OfAnotherStackHasItsTokensAndTheSameRest) {
  StepContext context = make_step_context(2, 3, at::kCPU);
  context.grids.insert(context.grids.begin(), make_token_grid(2, 5, at::kCPU));
  context.stack = 1;
  context.step = 7;
  context = context.without_adapters();
  EXPECT_EQ(context.tokens().sequence, 3);
  const StepContext source = context.of_stack(0);
  EXPECT_EQ(source.tokens().sequence, 5);
  EXPECT_FALSE(source.adapted);
  EXPECT_EQ(source.step, 7);
  EXPECT_EQ(source.sample_ids, (std::vector<int64_t>{0, 1}));
}

TEST(TokenGrid, OfRowsHasWhatBelongsToThem) {
  TokenGrid grid = make_token_grid(3, 4, at::kCPU, 2);
  EXPECT_TRUE(grid.of_rows({1, 3}).positions.equal(at::arange(2, 6)));
  grid.positions = at::arange(12).view({3, 4});
  grid.lengths = grid.positions + 20;
  grid.documents = grid.positions + 40;
  grid.prefix_lengths = {1, 2, 3};
  const TokenGrid part = grid.of_rows({1, 3});
  EXPECT_EQ(part.batch, 2);
  EXPECT_EQ(part.sequence, 4);
  EXPECT_TRUE(part.positions.equal(at::arange(4, 12).view({2, 4})));
  EXPECT_TRUE(part.lengths.equal(at::arange(24, 32).view({2, 4})));
  EXPECT_TRUE(part.documents.equal(at::arange(44, 52).view({2, 4})));
  EXPECT_EQ(part.prefix_lengths, (std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(part.is_empty());
  EXPECT_TRUE(TokenGrid().is_empty());
}

}  // namespace
}  // namespace colossal::nn
