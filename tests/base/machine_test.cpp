#include "colossal/base/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <thread>
#include <vector>

namespace colossal {
namespace {

TEST(Machine, ResidentMemoryFollowsAllocations) {
  constexpr int64_t kSize = 64 << 20;
  const int64_t before = machine::resident_bytes();
  EXPECT_GT(before, 0);
  std::vector<char> block(kSize, 1);
  EXPECT_GE(machine::resident_bytes(), before + kSize * 9 / 10);
  const int64_t peak = machine::peak_resident_bytes();
  std::vector<char>().swap(block);
  EXPECT_LE(machine::resident_bytes(), before + kSize / 10);
  // The kernel counts in batches per core, so the value is not exact to the page.
  EXPECT_GE(machine::peak_resident_bytes(), peak - kSize / 10);
}

TEST(Machine, PeakIsTheKernelsOwn) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);  // ru_maxrss is in KiB
  EXPECT_NEAR(static_cast<double>(machine::peak_resident_bytes()), usage.ru_maxrss * 1024.0, 8e6);
}

TEST(Machine, CoresFollowTheAffinityMask) {
  const int all = machine::available_cores();
  EXPECT_GE(all, 1);
  EXPECT_LE(all, static_cast<int>(std::thread::hardware_concurrency()));
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(machine::available_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

TEST(Machine, TellsMemoryAndNames) {
  EXPECT_GT(machine::total_memory_bytes(), int64_t{64} << 20);
  EXPECT_GT(machine::available_memory_bytes(), 0);
  EXPECT_LE(machine::available_memory_bytes(), machine::total_memory_bytes());
  EXPECT_FALSE(machine::host_name().empty());
  EXPECT_FALSE(machine::cpu_model_name().empty());
  EXPECT_GE(machine::load_average(), 0);
}

}  // namespace
}  // namespace colossal
