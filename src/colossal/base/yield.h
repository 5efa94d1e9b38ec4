#pragma once

namespace colossal {

// Gives the CPU to another thread that waits for it. False: it was gone for about a slice of the
// scheduler's time, so other processes want the CPU. Who waits for something should then sleep: a
// sleeper that is woken comes before them, one that yields comes after them, each time.
bool yield_briefly();

// Tells the processor that this thread spins, so that the core's other thread runs faster.
inline void pause_spinning() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace colossal
