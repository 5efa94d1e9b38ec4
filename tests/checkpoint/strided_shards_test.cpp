#include "colossal/checkpoint/strided_shards.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/support/run_ranks.h"

namespace colossal::checkpoint {
namespace {

// Element i has the value i in both kinds. Runs of 3 elements are on ranks 0 and 1 in turn; rank 2
// has none.
TEST(Buffers, BringStridedShardsTogether) {
  constexpr int64_t kNumel = 100, kBuffer = 7;
  std::vector<double> first(kNumel, -1), second(kNumel, -1);
  int buffers = 0;
  std::mutex mutex;
  test::run_ranks(3, [&](comm::World& world) {
    const comm::Group group = world.group("all", {0, 1, 2});
    std::vector<Range> pieces;
    for (int64_t begin = 0; begin < kNumel; begin += 3) {
      if (begin / 3 % 2 != world.rank()) continue;
      pieces.push_back({begin, std::min(kNumel, begin + 3)});
    }
    const auto read = [](size_t, Range elements) {
      return std::vector{at::arange(elements.begin, elements.end, at::kDouble),
                         at::arange(elements.begin, elements.end, at::kFloat)};
    };
    const auto take = [&](int64_t begin, const std::vector<at::Tensor>& values) {
      const std::lock_guard lock(mutex);
      ++buffers;
      EXPECT_LE(values[0].numel(), kBuffer);
      for (int64_t i = 0; i < values[0].numel(); ++i) {
        EXPECT_EQ(first[begin + i], -1) << "element " << begin + i << " came twice";
        first[begin + i] = values[0][i].item<double>();
        second[begin + i] = values[1][i].item<double>();
      }
    };
    exchange_shards(pieces, read, kNumel, {at::kDouble, at::kFloat}, group, take, kBuffer);
  });
  for (int64_t i = 0; i < kNumel; ++i) {
    EXPECT_EQ(first[i], i);
    EXPECT_EQ(second[i], i);
  }
  EXPECT_EQ(buffers, 15);  // five rounds of three ranks
}

}  // namespace
}  // namespace colossal::checkpoint
