#include "colossal/base/cgroup.h"

#include <gtest/gtest.h>

#include "tests/base/write_file.h"
#include "tests/support/temporary_directory.h"

namespace colossal {
namespace {

using test::TemporaryDirectory;
using test::write_file;

TEST(Cgroup, NothingToReadLimitsNothing) {
  const TemporaryDirectory root;
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_FALSE(limits.cores);
  EXPECT_FALSE(limits.memory_bytes);
  EXPECT_FALSE(limits.memory_free_bytes);
}

TEST(Cgroup, Version2TakesTheTightestOfNestedGroups) {
  const TemporaryDirectory root;
  write_file(root / "proc/self/cgroup", "0::/user/job/step\n");
  write_file(root / "sys/fs/cgroup/user/cpu.max", "200000 100000\n");
  write_file(root / "sys/fs/cgroup/user/job/cpu.max", "150000 100000\n");
  write_file(root / "sys/fs/cgroup/user/job/step/cpu.max", "300000 100000\n");
  write_file(root / "sys/fs/cgroup/user/job/memory.max", "max\n");
  write_file(root / "sys/fs/cgroup/user/memory.max", "2000000\n");
  write_file(root / "sys/fs/cgroup/user/job/step/memory.max", "1000000\n");
  write_file(root / "sys/fs/cgroup/user/job/step/memory.current", "700000\n");
  write_file(root / "sys/fs/cgroup/user/job/step/memory.stat",
             "anon 500000\ninactive_file 200000\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.cores, 1.5);
  EXPECT_EQ(limits.memory_bytes, 1'000'000);
  EXPECT_EQ(limits.memory_free_bytes, 500'000);
}

TEST(Cgroup, Version1InsideAContainerSeesItsMountPoint) {
  const TemporaryDirectory root;
  write_file(root / "proc/self/cgroup", "4:memory:/host/path\n2:cpu,cpuacct:/host/path\n");
  write_file(root / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
  write_file(root / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write_file(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  write_file(root / "sys/fs/cgroup/memory/memory.usage_in_bytes", "1500000\n");
  write_file(root / "sys/fs/cgroup/memory/memory.stat", "total_inactive_file 100000\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_EQ(limits.cores, 4);
  EXPECT_EQ(limits.memory_bytes, 2'000'000);
  EXPECT_EQ(limits.memory_free_bytes, 600'000);
}

TEST(Cgroup, Version1WritesNoLimitAsAHugeNumber) {
  const TemporaryDirectory root;
  write_file(root / "proc/self/cgroup", "4:memory:/\n2:cpu:/\n");
  write_file(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write_file(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write_file(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const CgroupLimits limits = read_cgroup_limits(root.path());
  EXPECT_FALSE(limits.cores);
  EXPECT_FALSE(limits.memory_bytes);
}

}  // namespace
}  // namespace colossal
