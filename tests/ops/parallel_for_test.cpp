#include "colossal/ops/parallel_for.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "colossal/ops/product/few_rows.h"

namespace colossal::ops {
namespace {

struct Threads {
  explicit Threads(int count) : before(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before); }
  int before;
};

TEST(ParallelFor, OfAwakeThreadsVisitsEachIndexOnceInPartsOfTheGrainAtLeast) {
  const Threads threads(3);
  const AwakeThreads awake;
  for (const int64_t size : {0, 1, 2, 3, 4, 7, 100}) {
    for (const int64_t grain : {1, 3, 200}) {
      std::vector<int> visits(size);
      std::atomic<int> parts = 0;
      parallel_for(5, 5 + size, grain, [&](int64_t first, int64_t last) {
        ++parts;
        for (int64_t i = first; i < last; ++i) ++visits[i - 5];
      });
      EXPECT_EQ(visits, std::vector<int>(size, 1)) << size << " by " << grain;
      EXPECT_LE(parts, std::max<int64_t>(1, size / grain)) << size << " by " << grain;
    }
  }
}

TEST(ParallelFor, InAPartStaysOnItsThread) {
  const Threads threads(2);
  const AwakeThreads awake;
  parallel_for(0, 2, 1, [&](int64_t, int64_t) {
    const std::thread::id self = std::this_thread::get_id();
    parallel_for(0, 8, 1, [&](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), self); });
  });
  int visits = 0;  // and the threads are back after it
  EXPECT_EQ(at::get_num_threads(), 2);
  parallel_for(0, 1, 1, [&](int64_t, int64_t) { ++visits; });
  EXPECT_EQ(visits, 1);
}

TEST(ParallelFor, AThreadThatIsHeldUpLosesTheRestOfItsPart) {
  const Threads threads(2);
  const AwakeThreads awake;
  std::atomic<int> visited = 0;
  bool rest_was_visited = false;
  parallel_for(0, 80, 1, [&](int64_t first, int64_t last) {
    if (first == 0) {  // the rest is done before this piece ends
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (visited < 70 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      rest_was_visited = visited >= 70;
    }
    visited += static_cast<int>(last - first);
  });
  EXPECT_TRUE(rest_was_visited);
  EXPECT_EQ(visited, 80);
}

TEST(ParallelFor, OfAwakeThreadsMakesTheSameNumbers) {
  const Threads threads(3);
  const at::Tensor x = at::ones({2, 512}), weight = at::arange(999 * 512).view({999, 512}).to(x);
  at::Tensor expected = at::empty({2, 999}), y = at::empty({2, 999});
  few_rows_product(expected, x, {weight}, {});
  const AwakeThreads awake;
  few_rows_product(y, x, {weight}, {});
  EXPECT_TRUE(at::equal(y, expected));
}

}  // namespace
}  // namespace colossal::ops
