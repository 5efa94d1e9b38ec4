#include "colossal/comm/work_queue.h"

#include <utility>

#include "colossal/comm/work_state.h"

namespace colossal::comm {

struct WorkQueue::QueuedCall final : Work::State {
  void wait() override {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_done; });
    if (error) std::rethrow_exception(error);
  }
  bool done() override {
    const std::lock_guard lock(mutex);
    return is_done;
  }

  std::mutex mutex;  // guards is_done and error
  std::condition_variable changed;
  bool is_done = false;
  std::exception_ptr error;  // thrown by the call; null if it has succeeded
};

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WorkQueue::run(const Job& job) {
  {
    std::unique_lock lock(mutex_);
    if (running_ || !entries_.empty()) {
      lock.unlock();
      submit(job).wait();
      return;
    }
    running_ = true;
  }
  struct Finish {
    WorkQueue& queue;
    ~Finish() {
      {
        const std::lock_guard lock(queue.mutex_);
        queue.running_ = false;
      }
      queue.changed_.notify_all();
    }
  } finish{*this};
  job();
}

Work WorkQueue::submit(Job job) {
  auto call = std::make_shared<QueuedCall>();
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back({std::move(job), call});
    if (!thread_.joinable()) thread_ = std::thread([this] { run_entries(); });
  }
  changed_.notify_all();
  return Work(call);
}

void WorkQueue::run_entries() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !running_ && (stopping_ || !entries_.empty()); });
    if (entries_.empty()) return;
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    running_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      entry.job();
    } catch (...) {
      error = std::current_exception();
    }
    entry.job = nullptr;  // releases its tensors before anyone learns that it is done
    lock.lock();
    running_ = false;
    {
      const std::lock_guard call_lock(entry.call->mutex);
      entry.call->is_done = true;
      entry.call->error = error;
    }
    entry.call->changed.notify_all();
  }
}

}  // namespace colossal::comm
