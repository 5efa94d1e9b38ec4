#include "colossal/ops/expert_order.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace colossal::ops {
namespace {

// The host learns the counts behind what the GPU is given meanwhile, which does not change them.
TEST(ExpertOrder, AGpuComputesWhileTheHostWaitsForTheCounts) {
  const at::Tensor experts = at::tensor({2, 0, 1, 2, 2, 3}, at::kLong).view({3, 2});
  int calls = 0;
  at::Tensor computed;
  const auto meanwhile = [&] {
    ++calls;
    computed = at::ones({1000}, at::TensorOptions(at::kFloat).device(at::kCUDA)) * 2;
  };
  const ExpertOrder on_cpu = order_by_expert(experts, 4, {}, meanwhile);
  EXPECT_EQ(calls, 0);
  const ExpertOrder on_gpu = order_by_expert(experts.to(at::kCUDA), 4, {}, meanwhile);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(on_gpu.counts, on_cpu.counts);
  EXPECT_TRUE(at::equal(on_gpu.order.cpu(), on_cpu.order));
  EXPECT_TRUE(computed.cpu().eq(2).all().item<bool>());
}

}  // namespace
}  // namespace colossal::ops
