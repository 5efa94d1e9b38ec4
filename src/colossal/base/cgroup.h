// Reads the limits of this process's control groups. Containers and batch systems set such limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace colossal {

// An empty field means no limit. If control groups are nested, the tightest limit applies.
struct CgroupLimits {
  std::optional<double> cores;          // CPU seconds per second
  std::optional<int64_t> memory_bytes;  // of all processes of a group together
  // The part of the limit that is not in use; inactive page cache counts as unused.
  std::optional<int64_t> memory_free_bytes;
};

// Reads control groups of versions 1 and 2, from proc/self/cgroup and sys/fs/cgroup below `root`.
// If a file cannot be read, its limit counts as absent.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace colossal
