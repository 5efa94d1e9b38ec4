// A counter in shared memory on which other processes can wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace colossal::comm {

class SharedCounter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Increments the value and wakes sleepers. A process that sees the new value also sees all
  // earlier writes of this process.
  void raise() {
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake();
  }

  // Sleeps until the value differs from `seen`, but at most for `length`. May return early.
  void sleep(uint32_t seen, std::chrono::milliseconds length);

 private:
  void wake();

  std::atomic<uint32_t> value_ = 0;
  std::atomic<uint32_t> sleepers_ = 0;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Waits for a condition that another rank will make true: first spins, which costs a core but
// reacts at once, then tells the caller to sleep. If there are more ranks than cores, the other
// rank may need this core, so the wait yields at every turn instead of spinning.
class SpinThenSleep {
 public:
  explicit SpinThenSleep(bool cores_to_spare) : spins_(cores_to_spare ? kSpins : 0) {}
  // Spins or yields once. Returns false when it is time to sleep.
  bool turn();

 private:
  static constexpr int kSpins = 2000;  // about 10 to 40 microseconds
  static constexpr int kYields = 40;

  int spins_;
  int yields_ = kYields;
};

}  // namespace colossal::comm
