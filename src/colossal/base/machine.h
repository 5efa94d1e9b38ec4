// Reads the memory use of this process, and the cores, memory and names of the machine, on Linux.
// No function throws. A number or name that the system does not tell is 0 or "", unless the
// function's comment says otherwise.
#pragma once

#include <cstdint>
#include <string>

namespace colossal::machine {

// Return the resident memory of this process in bytes: now (VmRSS), and its peak so far (VmHWM).
int64_t resident_bytes();
int64_t peak_resident_bytes();

// Returns the number of cores that this process may use, at least 1: the smaller of the cores in
// its affinity mask and the CPU quota of its control groups, rounded up.
int available_cores();

// Returns the memory that this process may use, in bytes, whether or not the memory is free now:
// the smaller of the machine's memory and the limit of this process's control groups.
int64_t total_memory_bytes();
// Returns the part of total_memory_bytes() that is free now, in bytes. Page cache that can be
// reclaimed counts as free.
int64_t available_memory_bytes();

std::string host_name();
// Returns the CPU's name, "AMD EPYC 9554 64-Core Processor"; "unknown" if the system does not tell.
std::string cpu_model_name();
// Returns the machine's load average over about the last minute: the mean number of threads that
// run, wait for a core, or wait for a disk.
double load_average();

}  // namespace colossal::machine
