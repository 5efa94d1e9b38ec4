// Runs the calls of one group one after the other, in the order in which they were issued. Blocking
// calls run on the calling thread if no other call is queued or running, for low latency. All other
// calls run on the queue's own thread, which is started when first needed.
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

// Thread-safe.
class WorkQueue {
 public:
  using Job = std::function<void()>;

  WorkQueue() = default;
  // Waits until all queued calls have run. Each call ends after the group's timeout at the latest.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs `job` after all jobs that were issued before. Returns when `job` is done; rethrows its
  // exception.
  void run(const Job& job);
  // Queues `job` to run on the queue's thread and returns at once. Work::wait() waits for `job` and
  // rethrows its exception.
  Work submit(Job job);

 private:
  struct QueuedCall;
  struct Entry {
    Job job;
    std::shared_ptr<QueuedCall> call;
  };
  // The body of thread_: runs entries until the queue is destroyed and empty.
  void run_entries();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  bool running_ = false;   // a job is running, on a caller's thread or on thread_
  bool stopping_ = false;  // the destructor was called
  std::thread thread_;
};

}  // namespace colossal::comm
