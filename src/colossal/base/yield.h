// Functions for threads that wait without sleeping: yield_briefly() and pause_spinning().
#pragma once

namespace colossal {

// Yields the CPU to another thread. Returns false if the yield took 0.5 ms or longer, about a slice
// of the scheduler: other threads then want this CPU. The waiting thread should then sleep instead
// of yielding again, because the scheduler puts a thread that wakes ahead of those threads, but a
// thread that yields behind them.
bool yield_briefly();

// Tells the CPU that this thread spins, so that the other hardware thread of the core runs faster.
inline void pause_spinning() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace colossal
