// Functions for threads that wait without sleeping: yield_briefly() and pause_spinning().
#pragma once

namespace colossal {

// Yields the CPU to another thread. Returns false if the yield took 0.5 ms or longer, about a slice
// of the scheduler: other threads then want this CPU. The caller should then sleep instead of
// yielding again: when a thread wakes from sleep, the scheduler runs it before those other threads;
// when it yields, after them.
bool yield_briefly();

// Tells the CPU that this thread spins, so that the other hardware thread of the core runs faster.
inline void pause_spinning() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace colossal
