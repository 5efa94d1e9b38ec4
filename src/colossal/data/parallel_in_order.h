// Work on many pieces at once, results taken in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace colossal::data {

// Threads that run tasks in the order in which they were given; what is not begun when the queue
// is destroyed is dropped.
template <typename Result>
class TaskQueue {
 public:
  explicit TaskQueue(int num_threads) {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { work(); });
  }

  ~TaskQueue() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  std::future<Result> submit(std::function<Result()> function) {
    std::packaged_task<Result()> task(std::move(function));
    std::future<Result> result = task.get_future();
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
    return result;
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
      if (closed_) return;
      std::packaged_task<Result()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<Result()>> tasks_;
  bool closed_ = false;
  std::vector<std::jthread> threads_;  // last, so that they are joined first
};

// Calls produce(i) for i = 0 .. count-1 on `num_threads` threads, and consume(i, result) on the
// calling thread in the order of i. No more than 4 results a thread are under way or waiting, so
// memory is bounded however slow the consumer. Rethrows the exception of the lowest i.
template <typename Result>
void parallel_in_order(int64_t count, int num_threads, std::function<Result(int64_t)> produce,
                       std::function<void(int64_t, Result)> consume) {
  TaskQueue<Result> queue(num_threads);
  std::deque<std::future<Result>> pending;
  int64_t submitted = 0;
  for (int64_t i = 0; i < count; ++i) {
    for (const int64_t end = std::min(count, i + 4 * num_threads); submitted < end; ++submitted) {
      pending.push_back(queue.submit([&produce, submitted] { return produce(submitted); }));
    }
    Result result = pending.front().get();
    pending.pop_front();
    consume(i, std::move(result));
  }
}

}  // namespace colossal::data
