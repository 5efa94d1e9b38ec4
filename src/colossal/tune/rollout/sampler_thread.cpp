#include "colossal/tune/rollout/sampler_thread.h"

#include <ATen/Parallel.h>

#include <chrono>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::tune {

SamplerThread::SamplerThread(int num_threads)
    : thread_([this, num_threads] { run(num_threads); }) {}

SamplerThread::~SamplerThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::future<double> SamplerThread::start(std::function<void()> work) {
  std::packaged_task<double()> task([work = std::move(work)] {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  std::future<double> seconds = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    COLOSSAL_CHECK(!next_.valid(), "the work before has not begun");
    next_ = std::move(task);
  }
  changed_.notify_one();
  return seconds;
}

void SamplerThread::run(int num_threads) {
  at::set_num_threads(num_threads);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return next_.valid() || ending_; });
    if (!next_.valid()) return;
    std::packaged_task<double()> task = std::exchange(next_, {});
    lock.unlock();
    task();
    task = {};  // destroys what the task holds, outside of the lock
    lock.lock();
  }
}

}  // namespace colossal::tune
