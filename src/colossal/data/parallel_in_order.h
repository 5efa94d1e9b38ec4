// Processes a sequence of tasks on several threads, and consumes the results in the order of the
// tasks. tokenize_files() uses it to tokenize pieces of files.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace colossal::data {

// A thread pool that starts functions in the order of submission. The destructor drops functions
// that have not started, whose futures then throw std::future_error, and waits for functions that
// run. Thread-safe.
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

  // Adds a function to the queue. The future gets its result or its exception.
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
  std::vector<std::jthread> threads_;  // declared last so that threads are joined first
};

// Calls next() until it returns nullopt. For each task that next() returns, calls produce(task) on
// one of `num_threads` other threads, and then consume(task, result), in the order of the tasks.
// next() and consume() are called on the calling thread. Returns when all results are consumed.
// num_threads: at least 1.
//
// At most 4 tasks per thread are in flight, i.e. wait, run, or have a result that is not consumed
// yet. Memory is therefore bounded even if consume() is slow. An exception of consume() ends the
// work at once; an exception of produce(), when its result would be consumed; an exception of
// next(), when all results of earlier tasks are consumed. Calls of produce() that run then are
// awaited before the exception is rethrown.
template <typename Task, typename Result>
void parallel_in_order(const std::function<std::optional<Task>()>& next, int num_threads,
                       const std::function<Result(const Task&)>& produce,
                       const std::function<void(const Task&, Result)>& consume) {
  struct Pending {
    std::shared_ptr<const Task> task;
    std::future<Result> result;
  };
  TaskQueue<Result> queue(num_threads);
  std::deque<Pending> pending;
  bool has_more = true;
  std::exception_ptr failure;
  const auto submit_next = [&] {
    try {
      std::optional<Task> given = next();
      has_more = given.has_value();
      if (!given) return;
      const auto task = std::make_shared<const Task>(std::move(*given));
      pending.push_back({task, queue.submit([&produce, task] { return produce(*task); })});
    } catch (...) {
      has_more = false;
      failure = std::current_exception();
    }
  };
  for (;;) {
    while (has_more && std::ssize(pending) < 4 * num_threads) submit_next();
    if (pending.empty()) break;
    consume(*pending.front().task, pending.front().result.get());
    pending.pop_front();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace colossal::data
