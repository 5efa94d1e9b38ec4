// Reads the limits of this process's control groups, which containers and batch systems set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace colossal {

// An empty field: no limit. Of nested groups the tightest limit counts.
struct CgroupLimits {
  std::optional<double> cores;          // CPU seconds per second
  std::optional<int64_t> memory_bytes;  // may be resident at once
  std::optional<int64_t>
      memory_free_bytes;  // of memory_bytes, what is not used yet; page cache counts as free
};

// Versions 1 and 2. Looks at proc/self/cgroup and sys/fs/cgroup below `root`; what cannot be read
// limits nothing.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace colossal
