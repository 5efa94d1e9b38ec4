#include "colossal/comm/work_queue.h"

#include <utility>

namespace colossal::comm {

Work::Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

void Work::wait() {
  if (!state_) return;
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
  if (const auto tell = std::exchange(state_->when_waited_for, nullptr)) tell();
}

bool Work::done() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

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
  auto state = std::make_shared<Work::State>();
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back({std::move(job), state});
    if (!thread_.joinable()) thread_ = std::thread([this] { run_entries(); });
  }
  changed_.notify_all();
  return Work(state);
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
      const std::lock_guard state_lock(entry.state->mutex);
      entry.state->done = true;
      entry.state->error = error;
    }
    entry.state->changed.notify_all();
  }
}

}  // namespace colossal::comm
