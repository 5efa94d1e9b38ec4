#pragma once

namespace colossal {

// Yields the CPU to another thread. Returns false if the yield took about a scheduler slice or
// longer: other processes want this CPU. A waiting thread should then sleep instead of yielding
// again, because the scheduler puts a woken thread ahead of those processes, but a yielding thread
// behind them.
bool yield_briefly();

// Tells the CPU that this thread spins, so that the other hardware thread of the core runs faster.
inline void pause_spinning() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace colossal
