#include "colossal/memory/chunk_plan.h"

#include <gmock/gmock.h>

namespace colossal::memory {
namespace {

nn::ParameterHandle parameter(std::string name, std::vector<int64_t> shape, bool trainable = true) {
  return nn::ParameterHandle(std::make_shared<nn::Parameter>(
      nn::Parameter{.name = std::move(name), .shape = std::move(shape), .trainable = trainable}));
}

TEST(PlanChunks, KeepsFrozenOnesApartAndOrderWithin) {
  const auto chunks =
      plan_chunks({parameter("a.weight", {4, 4}), parameter("a.bias", {4}),
                   parameter("b.weight", {4, 4}, false), parameter("c.weight", {2, 2})},
                  4, 1 << 20, 1);
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_TRUE(chunks[0].trainable);
  EXPECT_EQ(chunks[0].slots.size(), 3);
  EXPECT_EQ(chunks[0].slots[2].parameter->name, "c.weight");
  EXPECT_FALSE(chunks[1].trainable);
  EXPECT_EQ(chunks[1].first_use, 2);
}

TEST(PlanChunks, SlotsStartAtMultiplesOf64Bytes) {
  for (int64_t bytes : {2, 4, 8}) {
    for (const ChunkPlan& chunk :
         plan_chunks({parameter("a", {3, 5}), parameter("b", {7, 1}), parameter("c", {1, 33})},
                     bytes, 1 << 20, 1)) {
      int64_t end = 0;
      for (const Slot& slot : chunk.slots) {
        EXPECT_EQ(slot.offset * bytes % 64, 0);
        EXPECT_GE(slot.offset, end);
        end = slot.offset + slot.numel;
      }
      EXPECT_EQ(chunk.numel * bytes % 64, 0);
      EXPECT_GE(chunk.numel, end);
    }
  }
}

TEST(PlanChunks, OpensAnotherChunkWhenOneIsFull) {
  const auto chunks = plan_chunks({parameter("a", {16, 16}), parameter("b", {16, 16}),
                                   parameter("large", {100, 100}), parameter("c", {16, 16})},
                                  4, 2048, 1);
  ASSERT_EQ(chunks.size(), 3);
  EXPECT_EQ(chunks[0].slots.size(), 2);
  EXPECT_EQ(chunks[1].slots.front().parameter->name, "large");
  EXPECT_EQ(chunks[2].slots.front().parameter->name, "c");
}

}  // namespace
}  // namespace colossal::memory
