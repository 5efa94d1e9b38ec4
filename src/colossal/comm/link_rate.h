// Measures how fast two ranks of this host communicate.
#pragma once

#include <chrono>
#include <string>

namespace colossal::comm {

struct LinkRate {
  double latency = 0;    // seconds of an all-reduce of 4 KiB
  double bandwidth = 0;  // bytes/s that each rank sends by the law in an all-reduce of 16 MiB
};

// Measures all-reduces of fp32 between two threads of this process, which are ranks on the CPU; the
// fastest of several counts.
// backend: "shm" or "gloo", over which the ranks communicate as two processes do, or "local".
// timeout: time limit of each call. Throws IoError if no socket can listen, and CommError.
LinkRate measure_link(const std::string& backend, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
