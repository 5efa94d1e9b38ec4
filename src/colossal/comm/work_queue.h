// Runs the calls of one group in the order in which they were issued. Blocking calls run on the
// calling thread while nothing is queued, which keeps their latency low; asynchronous ones, and
// blocking ones behind them, run on a thread of the group's own, started at the first need.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "colossal/comm/group.h"

namespace colossal::comm {

struct Work::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;
};

class WorkQueue {
 public:
  using Job = std::function<void()>;

  WorkQueue() = default;
  // Waits for what is queued: calls end by themselves, at the latest with the group's timeout.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs `job` after all that were issued before, and throws what it throws.
  void run(const Job& job);
  Work submit(Job job);

 private:
  struct Entry {
    Job job;
    std::shared_ptr<Work::State> state;
  };
  void run_entries();  // the thread's body

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool running_ = false;  // a job is running, on either kind of thread
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace colossal::comm
