// Reads the resource use of this process and the properties of the machine, on Linux.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Memory of this process, in bytes: currently resident (VmRSS) and the peak so far (VmHWM).
int64_t resident_bytes();
int64_t peak_resident_bytes();

// Number of cores that this process may use: the smaller of the cores in its affinity mask and the
// quota of its control groups, rounded up.
int available_cores();

// Memory that this process may use, in bytes: the smaller of the machine's memory and the limit of
// its control groups.
int64_t total_memory_bytes();
int64_t available_memory_bytes();  // not in use; page cache that can be reclaimed counts as free

std::string host_name();
std::string cpu_model_name();  // "AMD EPYC 9554 64-Core Processor"; "unknown" if not known
double load_average();         // mean number of runnable processes in the last minute

}  // namespace colossal::machine
