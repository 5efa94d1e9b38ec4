// Reads the limits of this process's control groups. Containers and batch systems set such limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace colossal {

// An empty field means no limit. If control groups are nested, the tightest limit applies.
struct CgroupLimits {
  std::optional<double> cores;          // CPU seconds per second
  std::optional<int64_t> memory_bytes;  // largest resident memory
  std::optional<int64_t>
      memory_free_bytes;  // part of memory_bytes that is not used yet; page cache counts as free
};

// Reads control groups of versions 1 and 2, from proc/self/cgroup and sys/fs/cgroup below `root`. A
// file that cannot be read sets no limit.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace colossal
