// Reads the limits of this process's Linux control groups. Containers and batch systems set such
// limits of CPU time and memory. machine.h uses them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace colossal {

// nullopt: no limit. If control groups are nested, each field has the tightest limit of all groups.
struct CgroupLimits {
  std::optional<double> cores;          // CPU seconds per second, such as 2.5
  std::optional<int64_t> memory_bytes;  // memory of all processes of a group together
  // The part of a group's memory limit that its processes do not use. Inactive page cache counts as
  // unused.
  std::optional<int64_t> memory_free_bytes;
};

// Reads control groups of versions 1 and 2, from the files proc/self/cgroup and sys/fs/cgroup
// below `root`, which is another folder than "/" only in tests. If a file cannot be read, its limit
// counts as absent.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace colossal
