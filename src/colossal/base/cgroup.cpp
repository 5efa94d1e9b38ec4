#include "colossal/base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace colossal {
namespace {

using std::filesystem::path;

// Version 1 writes "no limit" as the largest multiple of the page size below 2^63.
constexpr int64_t kUnlimited = int64_t{1} << 60;

template <class T>
void tighten(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

// Returns the first number of a file; nothing for "max" or a missing file.
std::optional<int64_t> read_number(const path& file) {
  std::ifstream stream(file);
  int64_t number = 0;
  if (!(stream >> number)) return std::nullopt;
  return number;
}

// Returns the number that follows `name` in a file of "name number" lines, or 0.
int64_t read_field(const path& file, const std::string& name) {
  std::ifstream stream(file);
  std::string word;
  int64_t number = 0;
  while (stream >> word >> number) {
    if (word == name) return number;
  }
  return 0;
}

void tighten_cores(CgroupLimits& limits, std::optional<int64_t> quota,
                   std::optional<int64_t> period) {
  if (quota && period && *quota > 0 && *period > 0) {
    tighten(limits.cores, static_cast<double>(*quota) / static_cast<double>(*period));
  }
}

void tighten_memory(CgroupLimits& limits, std::optional<int64_t> limit, std::optional<int64_t> used,
                    int64_t page_cache) {
  if (!limit || *limit >= kUnlimited) return;
  tighten(limits.memory_bytes, *limit);
  const int64_t free = *limit - (used.value_or(0) - page_cache);
  tighten(limits.memory_free_bytes, std::clamp<int64_t>(free, 0, *limit));
}

void tighten_by_version_2(CgroupLimits& limits, const path& group) {
  std::ifstream cpu(group / "cpu.max");  // "200000 100000" or "max 100000"
  int64_t quota = 0, period = 0;
  if (cpu >> quota >> period) tighten_cores(limits, quota, period);
  tighten_memory(limits, read_number(group / "memory.max"), read_number(group / "memory.current"),
                 read_field(group / "memory.stat", "inactive_file"));
}

void tighten_by_version_1(CgroupLimits& limits, const path& group) {
  tighten_cores(limits, read_number(group / "cpu.cfs_quota_us"),
                read_number(group / "cpu.cfs_period_us"));
  tighten_memory(limits, read_number(group / "memory.limit_in_bytes"),
                 read_number(group / "memory.usage_in_bytes"),
                 read_field(group / "memory.stat", "total_inactive_file"));
}

// Returns a group and all groups around it, up to the mount point. In a container, the path in
// proc/self/cgroup may be the host's; then only the mount point exists, and its limits count.
std::vector<path> with_parents(const path& mount, path group) {
  std::vector<path> groups{mount};
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
    groups.push_back(mount / group);
  }
  return groups;
}

}  // namespace

CgroupLimits read_cgroup_limits(const path& root) {
  CgroupLimits limits;
  const path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:memory:/a/b"; version 2: "0::/a/b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const path group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const path& each : with_parents(mount, group)) tighten_by_version_2(limits, each);
    } else {
      for (const path& each : with_parents(mount / controllers, group)) {
        tighten_by_version_1(limits, each);
      }
    }
  }
  return limits;
}

}  // namespace colossal
