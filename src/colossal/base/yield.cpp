#include "colossal/base/yield.h"

#include <chrono>
#include <thread>

namespace colossal {

bool yield_briefly() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kSlice{500};  // a scheduler slice of Linux is 0.7 ms to 3 ms
  const Clock::time_point before = Clock::now();
  std::this_thread::yield();
  return Clock::now() - before < kSlice;
}

}  // namespace colossal
