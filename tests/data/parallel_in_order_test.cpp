#include "colossal/data/parallel_in_order.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>

namespace colossal::data {
namespace {

using namespace std::chrono_literals;

// Returns a function that yields 0 .. count-1, one by one.
std::function<std::optional<int64_t>()> numbers_below(int64_t count) {
  return [next = int64_t{0}, count]() mutable {
    return next < count ? std::optional(next++) : std::nullopt;
  };
}

TEST(ParallelInOrder, ConsumesInOrderOnTheCallingThread) {
  std::vector<int64_t> consumed;
  const auto caller = std::this_thread::get_id();
  parallel_in_order<int64_t, int64_t>(
      numbers_below(100), 3,
      [](int64_t i) {
        std::this_thread::sleep_for(i % 7 * 100us);
        return i * i;
      },
      [&](int64_t i, int64_t result) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        EXPECT_EQ(result, i * i);
        consumed.push_back(i);
      });
  ASSERT_EQ(consumed.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(consumed));
}

TEST(ParallelInOrder, NothingToDo) {
  parallel_in_order<int64_t, int>(
      numbers_below(0), 2, [](int64_t) { return 0; }, [](int64_t, int) { FAIL(); });
}

TEST(ParallelInOrder, HoldsFewResultsHoweverSlowTheConsumer) {
  std::atomic<int64_t> held = 0;
  int64_t most = 0;
  parallel_in_order<int64_t, int>(
      numbers_below(60), 2,
      [&](int64_t) {
        ++held;
        return 0;
      },
      [&](int64_t, int) {
        std::this_thread::sleep_for(200us);
        most = std::max(most, held.load());
        --held;
      });
  EXPECT_GT(most, 2);
  EXPECT_LE(most, 4 * 2);
}

TEST(ParallelInOrder, TheFirstFailureTravelsAndTheRestIsDropped) {
  std::atomic<int64_t> produced = 0;
  int64_t consumed = 0;
  try {
    parallel_in_order<int64_t, int>(
        numbers_below(1000), 2,
        [&](int64_t i) {
          ++produced;
          if (i == 10) std::this_thread::sleep_for(5ms);
          if (i >= 10) throw std::runtime_error(std::to_string(i));
          return 0;
        },
        [&](int64_t, int) { ++consumed; });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "10");
  }
  EXPECT_EQ(consumed, 10);
  EXPECT_LE(produced, 10 + 4 * 2);
}

TEST(ParallelInOrder, AFailingConsumerStopsTheWorkers) {
  std::atomic<int64_t> produced = 0;
  const auto run = [&] {
    parallel_in_order<int64_t, int>(
        numbers_below(1000), 2, [&](int64_t) { return static_cast<int>(++produced); },
        [](int64_t i, int) {
          if (i == 3) throw std::runtime_error("full");
        });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_LE(produced, 3 + 4 * 2);
}

// The exception arrives after all earlier results.
TEST(ParallelInOrder, WhatGivingTasksThrowsTravelsLast) {
  int64_t consumed = 0;
  const auto run = [&] {
    parallel_in_order<int64_t, int>(
        [next = int64_t{0}]() mutable {
          if (next == 7) throw std::runtime_error("no more");
          return std::optional(next++);
        },
        2, [](int64_t) { return 0; }, [&](int64_t, int) { ++consumed; });
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(consumed, 7);
}

}  // namespace
}  // namespace colossal::data
