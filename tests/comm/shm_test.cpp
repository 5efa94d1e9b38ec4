// Shared memory between real processes: a process that dies is named, and nothing is left behind.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "colossal/base/error.h"
#include "colossal/comm/shared_memory.h"
#include "tests/support/rank_processes.h"
#include "tests/support/run_ranks.h"

namespace colossal::comm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::set<std::string> named_segments() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names.insert(entry.path().filename());
  }
  return names;
}

TEST(Shm, ProcessesSumTheSameBits) {
  for (const test::RankProcess& process :
       test::start_ranks({"a", "a", "a"}, [](const Group& group) {
         const at::Tensor tensor = at::arange(1'000'003, at::kFloat).mul_(group.rank() + 1);
         all_reduce(tensor, group, Reason::gradient);
         return std::to_string(tensor.equal(at::arange(1'000'003, at::kFloat).mul_(6)));
       })) {
    EXPECT_EQ(process.result(), "1");
  }
}

// Wherever it is killed: rank 1 dies between calls, or in the middle of one.
TEST(Shm, AKilledProcessIsNamedAndNothingIsLeftBehind) {
  const std::set<std::string> before = named_segments();
  for (const auto delay : {std::chrono::milliseconds(0), std::chrono::milliseconds(30)}) {
    const auto processes =
        test::start_ranks({"a", "a", "a"}, [&](const Group& group) -> std::string {
          barrier(group);
          if (group.rank() == 1 && delay.count() == 0) raise(SIGKILL);
          const at::Tensor tensor = at::ones({4'000'000});
          while (true) all_reduce(tensor, group, Reason::gradient);
        });
    if (delay.count() > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500) + delay);
      kill(processes[1].id, SIGKILL);
    }
    const auto start = std::chrono::steady_clock::now();
    for (int rank : {0, 2}) {
      const std::string text = processes[rank].result();
      EXPECT_THAT(text,
                  StartsWith(fmt::format("rank {} of 3 on axis \"dp\": all_reduce of 15.3 MiB "
                                         "(gradient) lost rank",
                                         rank)));
      EXPECT_THAT(text, HasSubstr("lost rank 1: its process has ended"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    processes[1].result();
  }
  EXPECT_EQ(named_segments(), before);
}

TEST(Shm, SealedMemoryCannotBeOpened) {
  SharedMemory memory = SharedMemory::create(4096);
  const std::string address = memory.address();
  memory.data()[7] = std::byte{42};
  EXPECT_EQ(SharedMemory::open(address).data()[7], std::byte{42});
  memory.seal();
  EXPECT_THROW(SharedMemory::open(address), CommError);
}

// Ranks that wait for one that computes must not take the processor from it.
TEST(Shm, AWaitSleeps) {
  test::run_ranks_over("shm", 4, [](World& world) {
    const Group group = world.group("dp", {0, 1, 2, 3});
    barrier(group);
    if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    timespec before{}, after{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    barrier(group);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                           1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
    EXPECT_LT(seconds, 0.05);
  });
}

}  // namespace
}  // namespace colossal::comm
