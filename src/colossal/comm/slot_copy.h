// Copies into memory that peers have read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace colossal::comm {

// Peers' caches still hold what was there, and the lines come back to the core that writes them: at
// 10 to 40 GB/s from a core that shares a cache with it, at 2 GB/s from one that does not, where
// stores past the caches take 3 to 10 times less. Near, those would cost the peers twice the time
// to read. Where the ranks run is the kernel's choice, and on a virtual machine the host's, and
// changes: so large copies are timed, and after a slow one some go past the caches before the next
// is tried. The bytes are the same either way.
class SlotCopy {
 public:
  // What is slow, in bytes a second.
  explicit SlotCopy(double slow = 4e9) : slow_(slow) {}
  // `to`: aligned to 16 bytes.
  void operator()(std::byte* to, const std::byte* from, int64_t bytes);

 private:
  double slow_;
  int slow_in_a_row_ = 0;
  int past_caches_ = 0;  // large copies yet to go past the caches
};

}  // namespace colossal::comm
