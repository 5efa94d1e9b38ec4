#pragma once

namespace colossal {

// Yields the CPU to another thread. Returns false if the yield took at least about one scheduler
// slice: other processes then want the CPU. A waiting thread should then sleep instead of yield,
// because the scheduler runs a thread that is woken before those processes, and a thread that
// yields after them.
bool yield_briefly();

// Tells the processor that this thread spins, so that the other hardware thread of the core runs
// faster.
inline void pause_spinning() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace colossal
