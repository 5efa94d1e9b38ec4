#include "colossal/comm/shared_counter.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "colossal/base/yield.h"

namespace colossal::comm {

void SharedCounter::wake() {
  syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedCounter::sleep(uint32_t seen, std::chrono::milliseconds length) {
  const timespec time{.tv_sec = length.count() / 1000,
                      .tv_nsec = (length.count() % 1000) * 1'000'000};
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // The kernel compares the value again, so that a raise since then is not slept through.
  syscall(SYS_futex, &value_, FUTEX_WAIT, seen, &time, nullptr, 0);
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
}

bool SpinThenSleep::turn() {
  if (spins_ > 0) {
    --spins_;
    pause_spinning();
    return true;
  }
  if (yields_ == 0) return false;
  yields_ = yield_briefly() ? yields_ - 1 : 0;
  return true;
}

}  // namespace colossal::comm
