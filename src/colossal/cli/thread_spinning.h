// Limits how long idle compute threads spin on their core before they release it. LibTorch's OpenMP
// spins for about 10 ms. On a machine that is not idle that keeps the core from the very thread
// that is waited for: steps of 5 ms beside two busy processes on two cores took ten times as long.
#pragma once

#include <vector>

namespace colossal::cli {

// OpenMP reads its environment once, when it is loaded, so that this process starts itself again,
// with the environment that limits spinning: call it before there is anything to lose. `inherited`:
// descriptors that it needs then; negative ones are none. Does nothing in the process so started,
// nor where the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT.
void limit_spinning(const std::vector<int>& inherited = {});

// The same for processes that this one starts from now on.
void limit_spinning_of_children();

}  // namespace colossal::cli
