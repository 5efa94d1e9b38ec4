// Reads from Linux's /proc what this process uses and what the machine has.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Memory of this process, in bytes: resident now (VmRSS) and at its highest so far (VmHWM).
int64_t resident_bytes();
int64_t peak_resident_bytes();

// Cores that this process may use: its affinity mask and its control groups' quota, at least 1.
int available_cores();

// Memory that this process may use, in bytes: the machine's or, where smaller, its control groups'.
int64_t total_memory_bytes();
int64_t available_memory_bytes();  // without swapping, page cache counted as free

std::string host_name();
std::string cpu_model_name();  // "AMD EPYC 9554 64-Core Processor"; "unknown" where not told
double load_average();         // runnable processes, over the last minute

}  // namespace colossal::machine
