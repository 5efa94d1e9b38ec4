// In a dry run, one of several equal operations stands for all of them, so that layers with many
// experts take no longer than those with few.
#pragma once

#include <cstdint>

namespace colossal::ops {

// Returns the number of equal operations for which each operation of this thread stands now: 1
// outside of all DryRepeats. Recorders count it that often (plan::Recorder).
int64_t dry_repeats();

// While it exists, an operation of this thread stands for `times` operations.
class DryRepeats {
 public:
  explicit DryRepeats(int64_t times);
  ~DryRepeats();
  DryRepeats(const DryRepeats&) = delete;
  DryRepeats& operator=(const DryRepeats&) = delete;

 private:
  int64_t before_;
};

}  // namespace colossal::ops
