// What ring attention holds: for its backward pass a rank's share of what the serial run keeps, and
// meanwhile a bounded number of blocks, however many ranks there are.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

#include "colossal/parallel/sequence/ring.h"
#include "tests/support/counted_memory.h"
#include "tests/support/run_ranks.h"

namespace colossal::test::ring_memory {
namespace {

constexpr int64_t kBatch = 16, kSequence = 240, kHeadSize = 32;
const nn::AttentionOptions kOptions{
    .heads = 8, .kv_heads = 4, .head_size = kHeadSize, .scale = 0.2};

struct Bytes {
  int64_t saved;                        // with the result, which is saved as well
  int64_t forward_peak, backward_peak;  // beyond inputs and result
};

Bytes measure(const nn::MakeAttention& make, int64_t positions, at::ScalarType type) {
  const auto attention = make("attention", kOptions, {.queries = {0, 8}, .keys = {0, 4}}, {});
  nn::StepContext context = nn::make_step_context(kBatch, positions, at::kCPU);
  context.tokens().whole_sequence = kSequence;
  const at::Tensor qkv =
      at::ones({kBatch, positions, (8 + 2 * 4) * kHeadSize}, type).requires_grad_();
  const at::Tensor gradient = at::ones({kBatch, positions, 8 * kHeadSize}, type);
  CountedMemory memory;
  memory.begin();
  Bytes bytes{};
  {
    at::Tensor result = attention->forward(qkv, {}, context);
    bytes = {memory.live(), memory.peak(), 0};
    memory.reset_peak();
    torch::autograd::grad({result}, {qkv}, {gradient});
    bytes.backward_peak = memory.peak() - bytes.saved;
  }
  CountedMemory::end();
  return bytes;
}

TEST(RingMemory, SavesItsShareAndHoldsAFewBlocks) {
  const CountingAllocator allocator;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Bytes serial = measure(nn::make_dense_attention, kSequence, type);
    for (const int ranks : {2, 3, 5}) {
      TRACED_CASE(fmt::format("{} ranks, {}", ranks, c10::toString(type)));
      run_ranks(ranks, [&](comm::World& world) {
        std::vector<int> all(ranks);
        std::iota(all.begin(), all.end(), 0);
        const comm::Group group = world.group("sp", all);
        const int64_t tokens = kBatch * kSequence / ranks;
        const Bytes here = measure(parallel::make_ring_attention(group), kSequence / ranks, type);
        const auto width = static_cast<int64_t>(c10::elementSize(type));
        EXPECT_EQ(here.saved, tokens * 8 * (kHeadSize * width + 4));
        EXPECT_EQ(here.saved, serial.saved / ranks);
        const int64_t block = 2 * tokens * 4 * kHeadSize * width;
        const int64_t gradient_block = 2 * tokens * 4 * kHeadSize * 4;
        const int64_t of_queries = tokens * 8 * kHeadSize * 4;  // result, or gradient, of the sums
        const int64_t kernel = 400'000;                         // of a thread
        const int64_t forward = of_queries + tokens * 8 * 4 + 2 * block;
        EXPECT_GE(here.forward_peak, forward);
        EXPECT_LE(here.forward_peak, forward + kernel);
        // A block's gradient leaves and one arrives while the next is computed; by then, of two
        // blocks of keys and values no second one is to come.
        const int64_t backward = of_queries + (ranks > 2 ? 2 : 1) * block + 3 * gradient_block;
        EXPECT_LE(here.backward_peak, backward + kernel);
        EXPECT_GE(here.backward_peak, backward);
      });
    }
  }
}

}  // namespace
}  // namespace colossal::test::ring_memory
