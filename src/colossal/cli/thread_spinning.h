// Limits how long idle compute threads spin on their core before they release it. LibTorch's OpenMP
// spins for about 10 ms. On a machine that is not idle that keeps the core from the very thread
// that is waited for: steps of 5 ms beside two busy processes on two cores took ten times as long.
#pragma once

#include <string>
#include <vector>

namespace colossal::cli {

// OpenMP reads its environment once, when it is loaded. So this process executes itself again, with
// an environment that limits spinning: call it before there is anything to lose. inherited: file
// descriptors that the new process needs; negative ones are skipped. Does nothing in the process so
// started, or if the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT.
void limit_spinning(const std::vector<int>& inherited = {});

// Those of this process, but for its name.
std::vector<std::string> arguments_of_process();

// The same for processes that this one starts from now on.
void limit_spinning_of_children();

}  // namespace colossal::cli
