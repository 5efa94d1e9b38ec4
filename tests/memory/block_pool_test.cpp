#include "colossal/memory/block_pool.h"

#include <gtest/gtest.h>

namespace colossal::memory {
namespace {

// On meta: blocks are counted and take no memory.
class BlockPoolTest : public testing::Test {
 protected:
  BlockPoolTest() { install_counting_allocators(); }

  static std::unique_ptr<LentTensor> lent(int64_t bytes, MemoryKind kind, BlockPool& pool) {
    auto tensor = std::make_unique<LentTensor>(bytes, at::kByte, at::kMeta, kind, pool);
    tensor->give();
    return tensor;
  }

  MemoryLedger ledger_;
  MemoryScope scope_{ledger_, at::kMeta};
};

TEST_F(BlockPoolTest, GradientsTakeWhatWeightsHad) {
  BlockPool pool(at::kMeta, 1);
  const auto weights = lent(1000, MemoryKind::gathered, pool);
  const auto gradients = lent(1000, MemoryKind::gradients, pool);
  EXPECT_EQ(ledger_.live().total(), 1000);  // at most one is free
  weights->take();
  EXPECT_EQ(ledger_.live()[MemoryKind::gathered], 1000);
  weights->give();
  gradients->take();
  EXPECT_EQ(ledger_.live()[MemoryKind::gradients], 1000);
  EXPECT_EQ(ledger_.live().total(), 1000);
}

TEST_F(BlockPoolTest, WhatIsFreeMakesWayForWhatItDoesNotFit) {
  BlockPool pool(at::kMeta, 2);
  const auto table = lent(1500, MemoryKind::gathered, pool);
  const auto one = lent(1000, MemoryKind::gathered, pool);
  const auto two = lent(1000, MemoryKind::gradients, pool);
  EXPECT_EQ(ledger_.live().total(), 2000);  // at most two are free
  table->take();
  EXPECT_EQ(ledger_.live().total(), 1500);
  one->take();
  table->give();
  two->take();
  EXPECT_EQ(ledger_.live().total(), 2000);  // 1500 bytes are too many for 1000
  EXPECT_TRUE(one->here() && two->here() && !table->here());
}

TEST_F(BlockPoolTest, ViewsFollowTheMemory) {
  BlockPool pool(at::kCPU, 1);
  LentTensor tensor(8, at::kByte, at::kCPU, MemoryKind::gathered, pool);
  const at::Tensor view = tensor.tensor().narrow(0, 4, 4);
  tensor.give();
  tensor.take();
  tensor.tensor().fill_(7);
  EXPECT_EQ(view.sum().item<int64_t>(), 28);
}

}  // namespace
}  // namespace colossal::memory
