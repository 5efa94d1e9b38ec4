// A latch with a timeout, so that a rank that fails unexpectedly does not hang the test.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace colossal::test {

class Countdown {
 public:
  explicit Countdown(int count) : count_(count) {}
  void count_down(int by = 1) {
    const std::lock_guard lock(mutex_);
    count_ -= by;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return count_ <= 0; }));
  }
  void arrive_and_wait() {
    count_down();
    wait();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_;
};

}  // namespace colossal::test
