#include "colossal/ops/pending_sum.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

namespace colossal::ops {
namespace {

TEST(PendingSum, KnowsWhatIsOnTheHost) {
  PendingSum sum = 2;
  sum += at::full({}, 3, at::kLong);
  sum += PendingSum(at::full({1}, 1, at::kFloat)) / 4;
  EXPECT_EQ(sum.value(), 5.25);
  EXPECT_EQ(sum.known(), 5.25);
  EXPECT_FALSE(sum.pending().defined());
  EXPECT_EQ(sum.on(at::kCPU).item<double>(), 5.25);
}

TEST(PendingSum, RisesToTheLarger) {
  PendingSum most;
  for (const double value : {0.5, 2.0, 1.0}) most.raise_to(value);
  EXPECT_EQ(most.value(), 2);
}

TEST(PendingSum, CountsNothingOfMeta) {
  PendingSum sum = 1;
  sum += at::empty({}, at::TensorOptions(at::kDouble).device(at::kMeta));
  EXPECT_EQ(sum.value(), 1);
  EXPECT_TRUE(sum.on(at::kMeta).is_meta());
}

}  // namespace
}  // namespace colossal::ops
