// Functions for threads that wait without sleeping: yield_briefly() and pause_spinning().
#pragma once

namespace colossal {

// Yields the CPU to another thread. Returns false if the yield took 0.5 ms or longer: another
// thread then had this CPU for a whole time slice, which Linux makes 0.7 ms to 3 ms long. The
// caller should then sleep instead of yielding again: when a thread wakes from sleep, the scheduler
// runs it before the threads that want this CPU; when it yields, after them.
bool yield_briefly();

// Tells the CPU that this thread spins, so that the other hardware thread of the core runs faster.
inline void pause_spinning() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace colossal
