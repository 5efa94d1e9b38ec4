// Runs the calls of one group in the order in which they were issued. Blocking calls run on the
// calling thread if the queue is empty, for low latency. Asynchronous calls, and blocking calls
// behind them, run on the group's own thread, which is started when first needed.
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
  // Waits for all queued calls; each ends after the group's timeout at the latest.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs `job` after all jobs issued before, waits for it, and rethrows its exception.
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
  bool running_ = false;  // a job is running, on a caller's thread or on thread_
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace colossal::comm
