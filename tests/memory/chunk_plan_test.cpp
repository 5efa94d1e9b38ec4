#include "colossal/memory/chunk_plan.h"

#include <gmock/gmock.h>

#include "colossal/ops/product/packed_weight.h"

namespace colossal::memory {
namespace {

nn::ParameterHandle parameter(std::string name, std::vector<int64_t> shape, bool trainable = true) {
  return nn::ParameterHandle(std::make_shared<nn::Parameter>(
      nn::Parameter{.name = std::move(name), .shape = std::move(shape), .trainable = trainable}));
}

const optim::Optimizer* one_optimizer(const nn::Parameter&) {
  static const auto optimizer = optim::make_optimizer("adamw", {});
  return optimizer.get();
}

TEST(PlanChunks, AChunkHasOneOptimizer) {
  const auto other = optim::make_optimizer("sgd", {});
  const auto chunks =
      plan_chunks({parameter("a", {4, 4}), parameter("b", {4}), parameter("c", {4, 4})}, at::kFloat,
                  1 << 20, 1, [&](const nn::Parameter& parameter) {
                    return parameter.shape.size() == 1 ? other.get() : one_optimizer(parameter);
                  });
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_EQ(chunks[0].slots.size(), 2);
  EXPECT_EQ(chunks[0].optimizer, one_optimizer(*chunks[0].slots[0].parameter));
  EXPECT_EQ(chunks[1].optimizer, other.get());
}

TEST(PlanChunks, KeepsFrozenOnesApartAndOrderWithin) {
  const auto chunks =
      plan_chunks({parameter("a.weight", {4, 4}), parameter("a.bias", {4}),
                   parameter("b.weight", {4, 4}, false), parameter("c.weight", {2, 2})},
                  at::kFloat, 1 << 20, 1, one_optimizer);
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_TRUE(chunks[0].trainable);
  EXPECT_EQ(chunks[0].slots.size(), 3);
  EXPECT_EQ(chunks[0].slots[2].parameter->name, "c.weight");
  EXPECT_FALSE(chunks[1].trainable);
  EXPECT_EQ(chunks[1].first_use, 2);
}

TEST(PlanChunks, SlotsStartAtMultiplesOf64Bytes) {
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat, at::kDouble}) {
    const auto bytes = static_cast<int64_t>(c10::elementSize(type));
    for (const ChunkPlan& chunk :
         plan_chunks({parameter("a", {3, 5}), parameter("b", {7, 1}), parameter("c", {1, 33})},
                     type, 1 << 20, 1, one_optimizer)) {
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
                                  at::kFloat, 2048, 1, one_optimizer);
  ASSERT_EQ(chunks.size(), 3);
  EXPECT_EQ(chunks[0].slots.size(), 2);
  EXPECT_EQ(chunks[1].slots.front().parameter->name, "large");
  EXPECT_EQ(chunks[2].slots.front().parameter->name, "c");
}

TEST(PlanChunks, PackedWeightsSitApartAsBytes) {
  const auto packed = [](const char* name) {
    const auto made = parameter(name, {8, 128}, false);
    made->packed = std::make_shared<const ops::PackedLayout>(
        ops::PackedLayout::whole(ops::PackedType::nf4, 8, 128));
    return made;
  };
  const auto chunks = plan_chunks({packed("a"), parameter("b", {16}, false), packed("c")},
                                  at::kBFloat16, 1 << 20, 1, one_optimizer);
  ASSERT_EQ(chunks.size(), 2);
  EXPECT_EQ(chunks[0].type, at::kByte);
  EXPECT_EQ(chunks[0].slots.size(), 2);
  // For rows of 64 bytes: 2 scales each, the mean, and the scale of the only group of scales.
  const int64_t bytes = 16 + 8 * 2 + 8 * 64;
  EXPECT_EQ(chunks[0].slots[0].numel, bytes);
  EXPECT_EQ(chunks[0].global_bytes(), 2 * bytes);
  EXPECT_EQ(chunks[1].global_bytes(), 2 * 16);
}

}  // namespace
}  // namespace colossal::memory
