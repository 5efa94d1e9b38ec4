// A counter in shared memory that other processes wait on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace colossal::comm {

class SharedCounter {
 public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }

  // Raises the value. Whoever sees the new value sees what was written before.
  void raise() {
    value_.fetch_add(1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake();
  }

  // Sleeps until the value is another than `seen`, at most for `length`. May return early.
  void sleep(uint32_t seen, std::chrono::milliseconds length);

 private:
  void wake();

  std::atomic<uint32_t> value_ = 0;
  std::atomic<uint32_t> sleepers_ = 0;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Waits for a condition that another rank will make true, first awake, then asleep: awake costs a
// core but no time. Where there are more ranks than cores, the one waited for may need this very
// core, so the wait gives it up at every turn.
class SpinThenSleep {
 public:
  explicit SpinThenSleep(bool cores_to_spare) : spins_(cores_to_spare ? kSpins : 0) {}
  // One turn; false once it is time to sleep.
  bool turn();

 private:
  static constexpr int kSpins = 2000;  // some 10 to 40 microseconds
  static constexpr int kYields = 40;

  int spins_;
  int yields_ = kYields;
};

}  // namespace colossal::comm
