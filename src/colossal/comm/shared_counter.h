// Waiting between processes: a counter in shared memory that wakes processes which sleep on it, and
// the policy of when a waiting rank spins and when it sleeps. ShmBoard uses both.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace colossal::comm {

// A counter that starts at 0 and only grows (modulo 2^32). It must lie in memory that all its
// processes share.
class SharedCounter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Increments the value and wakes all sleepers. A process that reads the new value with value()
  // also sees all earlier writes of this process.
  void raise() {
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake();
  }

  // Sleeps until another process raises the counter, at most for `length`. Returns at once if the
  // value differs from `seen`, the value() that the caller read before it checked its condition.
  // May return early.
  void sleep(uint32_t seen, std::chrono::milliseconds length);

 private:
  void wake();

  std::atomic<uint32_t> value_ = 0;
  std::atomic<uint32_t> sleepers_ = 0;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Paces one wait for a condition that another rank will make true. The caller checks the condition
// and calls turn() in a loop. The first turns spin, which reacts at once but occupies a core, the
// next turns yield the core, and then the caller must sleep (SharedCounter::sleep()).
class SpinThenSleep {
 public:
  // cores_to_spare: whether each rank of the host has a core. If not, the other rank may need this
  // core, so no turn spins.
  explicit SpinThenSleep(bool cores_to_spare) : spins_(cores_to_spare ? kSpins : 0) {}
  // Spins or yields once and returns true. When it is time to sleep, returns false at once, as do
  // all later calls.
  bool turn();

 private:
  static constexpr int kSpins = 2000;  // about 10 to 40 microseconds
  static constexpr int kYields = 40;

  int spins_;  // turns left
  int yields_ = kYields;
};

}  // namespace colossal::comm
