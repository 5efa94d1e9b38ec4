// A sum whose numbers a GPU computes: the host waits only for the value.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "colossal/ops/pending_sum.h"

namespace colossal::ops {
namespace {

TEST(PendingSumOnGpu, AddsOnTheHostAndOnTheGpu) {
  const at::TensorOptions gpu = at::TensorOptions(at::kFloat).device(at::kCUDA);
  PendingSum sum = 1;
  sum += PendingSum(at::full({}, 3, gpu)) / 2;
  sum += at::full({1}, 0.25, gpu);
  sum += 4;
  EXPECT_EQ(sum.known(), 5);
  EXPECT_TRUE(sum.pending().is_cuda());
  EXPECT_EQ(sum.value(), 6.75);
  EXPECT_EQ(sum.on(at::kCUDA).item<double>(), 6.75);
}

TEST(PendingSumOnGpu, RisesToTheLargerWhereverItIs) {
  const at::TensorOptions gpu = at::TensorOptions(at::kFloat).device(at::kCUDA);
  PendingSum most = 2;
  most.raise_to(at::full({}, 3, gpu));
  most.raise_to(1);
  EXPECT_EQ(most.value(), 3);
}

}  // namespace
}  // namespace colossal::ops
