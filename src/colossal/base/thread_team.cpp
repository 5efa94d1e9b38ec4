#include "colossal/base/thread_team.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "colossal/base/log.h"
#include "colossal/base/yield.h"

namespace colossal {
namespace {

using Clock = std::chrono::steady_clock;

// How long a thread without a task spins before it sleeps. The time from the last product of a
// model's step to the first product of the next step is shorter.
constexpr std::chrono::microseconds kAwake{1000};
constexpr int kChecksOfClock = 64;

// Spins until the condition holds. Returns false after kAwake, or if other processes want the CPU.
template <typename Condition>
bool await_awake(const Condition& condition) {
  const Clock::time_point end = Clock::now() + kAwake;
  do {
    for (int i = 0; i < kChecksOfClock; ++i) {
      if (condition()) return true;
      pause_spinning();
    }
    // LibTorch's own threads may need the CPU.
    if (!yield_briefly()) return false;
  } while (Clock::now() < end);
  return false;
}

}  // namespace

ThreadTeam::ThreadTeam(int threads) {
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    log::warn("computing with {} threads instead of {}: no more can be started ({})", size(),
              threads, error.what());
  }
}

ThreadTeam::~ThreadTeam() {
  stopped_ = true;
  task_.fetch_add(1);
  task_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run(const std::function<void(int)>& part) {
  part_ = &part;
  running_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  task_.fetch_add(1);
  task_.notify_all();
  call(0);
  const auto all_done = [&] { return running_.load(std::memory_order_acquire) == 0; };
  while (!await_awake(all_done)) {
    if (const int left = running_.load(); left > 0) running_.wait(left);
  }
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadTeam::work(int index) {
  for (uint32_t done = 0;; ++done) {
    const auto has_task = [&] { return task_.load(std::memory_order_acquire) != done; };
    if (!await_awake(has_task)) task_.wait(done);
    if (stopped_) return;
    call(index);
    if (running_.fetch_sub(1) == 1) running_.notify_all();
  }
}

void ThreadTeam::call(int index) {
  try {
    (*part_)(index);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

}  // namespace colossal
