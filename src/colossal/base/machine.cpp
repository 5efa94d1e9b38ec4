#include "colossal/base/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "colossal/base/cgroup.h"

namespace colossal::machine {
namespace {

// Returns the value of the line "name : value" of a file; "" if there is none.
std::string read_field(const char* file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    if (line.find_first_not_of(" \t", name.size()) != colon) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

// Returns such a value in bytes. In /proc, kB means 1024 bytes.
int64_t read_kilobytes(const char* file, const std::string& name) {
  return std::strtoll(read_field(file, name).c_str(), nullptr, 10) * 1024;
}

int cores_in_affinity_mask() {
  // Larger than one cpu_set_t: sched_getaffinity fails if the kernel's mask is longer.
  std::array<cpu_set_t, 16> mask{};
  if (sched_getaffinity(0, sizeof(mask), mask.data()) != 0) {
    return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  }
  return CPU_COUNT_S(sizeof(mask), mask.data());
}

}  // namespace

int64_t resident_bytes() {
  return read_kilobytes("/proc/self/status", "VmRSS");
}

int64_t peak_resident_bytes() {
  return read_kilobytes("/proc/self/status", "VmHWM");
}

int available_cores() {
  const double quota = read_cgroup_limits().cores.value_or(std::numeric_limits<double>::infinity());
  const double cores = std::min<double>(cores_in_affinity_mask(), std::ceil(quota));
  return std::max(1, static_cast<int>(cores));
}

int64_t total_memory_bytes() {
  const int64_t installed = read_kilobytes("/proc/meminfo", "MemTotal");
  return std::min(installed, read_cgroup_limits().memory_bytes.value_or(installed));
}

int64_t available_memory_bytes() {
  const int64_t available = read_kilobytes("/proc/meminfo", "MemAvailable");
  return std::min(available, read_cgroup_limits().memory_free_bytes.value_or(available));
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string cpu_model_name() {
  const std::string name = read_field("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown" : name;
}

double load_average() {
  double last_minute = 0;
  std::ifstream("/proc/loadavg") >> last_minute;
  return last_minute;
}

}  // namespace colossal::machine
