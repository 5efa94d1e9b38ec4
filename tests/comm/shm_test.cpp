// Shared memory between real processes: a process that dies is named, and nothing is left behind.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/comm/peer_writer.h"
#include "colossal/comm/shared_memory.h"
#include "colossal/comm/shm_board.h"
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

// Makes so many calls that sums and copies go both through the caches and past them.
TEST(Shm, SumsInSharedMemoryAreTheSameBitsEachTime) {
  for (const test::RankProcess& process :
       test::start_ranks({"a", "a", "a"}, [](const Group& group) {
         const at::Tensor tensor = shared_empty(300'007, at::kFloat, group);
         const at::Tensor start = at::arange(300'007, at::kFloat);
         int wrong = 0;
         for (int call = 0; call < 40; ++call) {
           tensor.copy_(start).mul_(group.rank() + 1);
           all_reduce(tensor, group, Reason::gradient);
           wrong += !tensor.equal(start * 6);
         }
         return std::to_string(wrong) + " wrong";
       })) {
    EXPECT_EQ(process.result(), "0 wrong");
  }
}

// Kills rank 1 between calls or in the middle of one.
TEST(Shm, AKilledProcessIsNamedAndNothingIsLeftBehind) {
  const std::set<std::string> before = named_segments();
  const auto run = [](std::chrono::milliseconds delay, bool shared) {
    const auto processes =
        test::start_ranks({"a", "a", "a"}, [&](const Group& group) -> std::string {
          const at::Tensor tensor =
              shared ? shared_empty(4'000'000, at::kFloat, group) : at::empty({4'000'000});
          tensor.fill_(1);
          barrier(group);
          if (group.rank() == 1 && delay.count() == 0) raise(SIGKILL);
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
  };
  run(std::chrono::milliseconds(0), /*shared=*/false);
  run(std::chrono::milliseconds(0), /*shared=*/true);
  run(std::chrono::milliseconds(30), /*shared=*/false);
  run(std::chrono::milliseconds(30), /*shared=*/true);
  EXPECT_EQ(named_segments(), before);
}

TEST(Shm, AKilledProcessIsNamedWhereTensorsAreMade) {
  const auto processes = test::start_ranks({"a", "a"}, [](const Group& group) -> std::string {
    if (group.rank() == 1) raise(SIGKILL);
    shared_empty(1'000'000, at::kFloat, group);
    return "made";
  });
  EXPECT_EQ(processes[0].result(),
            "rank 0 of 2 on axis \"dp\": shared_empty of 3.81 MiB (rendezvous) lost rank 1: its "
            "process has ended");
  processes[1].result();
}

TEST(Shm, RanksMakeSharedTensorsAlike) {
  for (const test::RankProcess& process :
       test::start_ranks({"a", "a"}, [](const Group& group) -> std::string {
         shared_empty(1000 << group.rank(), at::kFloat, group);
         return "made";
       })) {
    EXPECT_THAT(process.result(), HasSubstr("does not match: rank"));
  }
}

// Returns how many bytes of a shared mapping of this size are in this process's page tables, or
// nothing if there is no such mapping.
std::optional<int64_t> resident_bytes(int64_t mapped_bytes) {
  std::ifstream mappings("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(mappings, line);) {
    uint64_t begin = 0, end = 0;
    long long kibibytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      found = line.find("memfd:colossal") != std::string::npos &&
              end - begin == static_cast<uint64_t>(mapped_bytes);
    } else if (found && std::sscanf(line.c_str(), "Rss: %lld kB", &kibibytes) == 1) {
      return kibibytes << 10;
    }
  }
  return {};
}

int64_t num_open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

// Reading a peer's memory makes it resident here: so this shows which memory was read.
TEST(Shm, SharedTensorsAreReadWhereTheyLieAndLeaveNothing) {
  constexpr int64_t kElements = 1 << 20, kBytes = 4 * kElements, kMapped = 2 * kBytes;
  for (const test::RankProcess& process :
       test::start_ranks({"a", "a"}, [&](const Group& group) -> std::string {
         const int64_t files = num_open_files();
         at::Tensor tensor = shared_empty(kElements, at::kFloat, group);
         tensor.fill_(1);
         std::string resident = std::to_string(*resident_bytes(kMapped) / kBytes);
         all_reduce(group.rank() == 0 ? tensor : at::ones({kElements}), group, Reason::gradient);
         resident += std::to_string(*resident_bytes(kMapped) / kBytes);
         all_reduce(tensor, group, Reason::gradient);
         resident += std::to_string(*resident_bytes(kMapped) / kBytes);
         const int64_t files_then = num_open_files();
         // Rank 0 serves the store. It closes the connection of a rank that has ended.
         barrier(group);
         if (files_then != files) return "files are open";
         tensor.reset();
         return resident + (resident_bytes(kMapped) ? " still mapped" : "");
       })) {
    EXPECT_EQ(process.result(), "112");
  }
}

TEST(Shm, SealedMemoryCannotBeOpened) {
  SharedMemory memory = SharedMemory::create(4096);
  const std::string address = memory.address();
  memory.data()[7] = std::byte{42};
  EXPECT_EQ(SharedMemory::open(address).data()[7], std::byte{42});
  memory.seal();
  EXPECT_THROW(SharedMemory::open(address), CommError);
}

// Ranks that wait for one that computes must not take the CPU from it.
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

// A rank fills all its slots while its peer reads the first one, but none again before it was read.
TEST(Shm, ARankWritesAheadOfItsPeer) {
  constexpr int64_t kRounds = 5 * ShmBoard::kSlots / 2;
  std::array<std::atomic<int64_t>, 2> written_by_other{};  // in each call
  const SharedMemory memory = SharedMemory::create(ShmBoard::bytes_needed(2));
  const auto run_rank = [&](int rank) {
    const auto timeout = std::chrono::seconds(20);
    const Deadline deadline(timeout);
    ShmBoard board(SharedMemory::open(memory.address()),
                   {.axis = "dp", .ranks = {0, 1}, .rank = rank}, timeout);
    const auto number = [](std::byte* slot) -> int64_t& {
      return *reinterpret_cast<int64_t*>(slot);
    };
    for (size_t call = 0; call < 2; ++call) {
      board.show({.operation = Operation::all_gather}, {});
      board.stream(
          kRounds,
          [&](int64_t round, std::byte* slot) {
            number(slot) = static_cast<int64_t>(1000 * call) + round;
            if (rank == 1) ++written_by_other[call];
          },
          [&](int64_t round, const ShmBoard::Slots& slots) {
            if (rank == 0 && round == 0) {
              const Deadline spinning(timeout / 4);
              while (written_by_other[call] < ShmBoard::kSlots && !spinning.passed()) {
                std::this_thread::yield();
              }
              std::this_thread::sleep_for(std::chrono::milliseconds(50));
              EXPECT_EQ(written_by_other[call], ShmBoard::kSlots);
            }
            EXPECT_EQ(number(slots[1 - rank]), static_cast<int64_t>(1000 * call) + round);
          },
          deadline);
    }
  };
  std::thread other([&] { run_rank(1); });
  run_rank(0);
  other.join();
}

// Each phase of a round sees what all ranks did in the phase before, whichever rank is late. A rank
// writes one round ahead of the one that it sums.
TEST(Shm, RoundsOfTwoPhasesOverlap) {
  constexpr int kRanks = 3;
  constexpr int64_t kRounds = 3 * ShmBoard::kSlots + 1;
  struct Cell {
    int64_t written, reduced;
  };
  std::atomic<int64_t> written_ahead = 0;
  const SharedMemory memory = SharedMemory::create(ShmBoard::bytes_needed(kRanks));
  const auto run_rank = [&](int rank) {
    const auto timeout = std::chrono::seconds(20);
    ShmBoard board(SharedMemory::open(memory.address()),
                   {.axis = "dp", .ranks = {0, 1, 2}, .rank = rank}, timeout);
    const auto cell = [](std::byte* slot) -> Cell& { return *reinterpret_cast<Cell*>(slot); };
    const auto value = [](int64_t round, int of) { return 100 * (round + 1) + of; };
    for (const int64_t rounds : {kRounds, int64_t{1}, int64_t{2}}) {
      int64_t written = 0;
      board.show({.operation = Operation::all_reduce}, {});
      board.stream_reduced(
          rounds,
          [&](int64_t round, std::byte* slot) {
            EXPECT_EQ(round, written++);
            cell(slot) = {.written = value(round, rank), .reduced = 0};
          },
          [&](int64_t round, const ShmBoard::Slots& slots) {
            if (round % kRanks == rank) std::this_thread::sleep_for(std::chrono::milliseconds(2));
            written_ahead = std::max<int64_t>(written_ahead, written - round);
            for (int source = 0; source < kRanks; ++source) {
              EXPECT_EQ(cell(slots[source]).written, value(round, source));
              cell(slots[rank]).reduced += cell(slots[source]).written;
            }
          },
          [&](int64_t round, const ShmBoard::Slots& slots) {
            for (int source = 0; source < kRanks; ++source) {
              EXPECT_EQ(cell(slots[source]).reduced, 3 * value(round, 1));
            }
          },
          Deadline(timeout));
      EXPECT_EQ(written, rounds);
    }
  };
  std::vector<std::jthread> others;
  for (int rank = 1; rank < kRanks; ++rank) others.emplace_back([&, rank] { run_rank(rank); });
  run_rank(0);
  others.clear();
  EXPECT_EQ(written_ahead, 2);
}

// Writes through the caches and past them, as the writer chooses.
TEST(Shm, WritesForPeersKeepTheirBytes) {
  constexpr size_t kBytes = 200'000;
  std::vector<std::byte> from(kBytes);
  for (size_t i = 0; i < kBytes; ++i) from[i] = static_cast<std::byte>(i * 7 % 251 + 1);
  alignas(64) static std::array<std::byte, kBytes> to;
  PeerWriter writer;
  const auto copy = [&](std::byte* out, const std::byte* in, int64_t bytes) {
    writer.copy(out, in, bytes);
  };
  for (const std::function<void(std::byte*, const std::byte*, int64_t)>& write :
       {std::function(copy), std::function(copy_past_caches)}) {
    for (const int64_t bytes : {0, 1, 15, 63, 4'095, 4'096, 32'775, 100'001, 199'990}) {
      for (const int misaligned : {0, 1, 9}) {
        to.fill(std::byte{0});
        write(to.data() + misaligned, from.data() + 1, bytes);
        EXPECT_EQ(std::memcmp(to.data() + misaligned, from.data() + 1, bytes), 0) << bytes;
        EXPECT_EQ(to[misaligned + bytes], std::byte{0}) << bytes;
        EXPECT_EQ(to[(misaligned + kBytes - 1) % kBytes], std::byte{0}) << bytes;
      }
    }
  }
}

// Returns how many of 1,000 writes go past the caches, where each takes 20 us.
int writes_past_caches(double slow, std::chrono::microseconds through_caches) {
  const auto spend = [](std::chrono::microseconds time) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() < begin + time) continue;
  };
  PeerWriter writer(slow);
  int past_caches = 0;
  for (int i = 0; i < 1000; ++i) {
    writer.write(
        1 << 20, [&] { spend(through_caches); },
        [&] {
          spend(std::chrono::microseconds(20));
          ++past_caches;
        });
  }
  return past_caches;
}

TEST(Shm, WritesGoPastTheCachesWhileThoseThroughThemAreSlow) {
  EXPECT_EQ(writes_past_caches(1e6, std::chrono::microseconds(0)), 32)
      << "to know how fast those are";
  // After the first 32, which were slow, 256 of every 257.
  EXPECT_EQ(writes_past_caches(4, std::chrono::microseconds(200)), 1000 - 32 - 3);
}

}  // namespace
}  // namespace colossal::comm
