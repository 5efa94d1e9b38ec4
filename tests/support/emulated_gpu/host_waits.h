// The waits of the host for a GPU, by the functions that wait. With EMULATED_GPU_REPORT=PREFIX a
// process writes PREFIX.(process id): a line "count kind function < caller < ..." for each place.
#pragma once

#include <string>

namespace colossal::emulated_gpu {

// Lives while the host waits. Waits within a wait are not counted.
class HostWait {
 public:
  // kind: what is waited for, such as "stream" or the name of an operator.
  explicit HostWait(const std::string& kind);
  ~HostWait();
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;
};

}  // namespace colossal::emulated_gpu
