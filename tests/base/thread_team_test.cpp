#include "colossal/base/thread_team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>

namespace colossal {
namespace {

TEST(ThreadTeam, CallsEachPartOnceOnAThreadOfItsOwn) {
  ThreadTeam team(3);
  std::vector<int> calls(3);
  std::vector<std::thread::id> threads(3);
  for (int task = 0; task < 2000; ++task) {
    team.run([&](int part) {
      ++calls[part];
      threads[part] = std::this_thread::get_id();
    });
  }
  EXPECT_EQ(calls, std::vector<int>(3, 2000));
  EXPECT_EQ(threads[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(threads.begin(), threads.end()).size(), 3u);
}

TEST(ThreadTeam, WakesThreadsThatSleep) {
  ThreadTeam team(2);
  for (int task = 0; task < 3; ++task) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::vector<int> calls(2);
    team.run([&](int part) { calls[part] = 1; });
    EXPECT_EQ(calls, std::vector<int>(2, 1));
  }
}

TEST(ThreadTeam, ThrowsWhatAPartThrowsAndGoesOn) {
  ThreadTeam team(2);
  for (const int bad : {0, 1}) {
    EXPECT_THROW(team.run([&](int part) {
      if (part == bad) throw std::runtime_error("bad");
    }),
                 std::runtime_error);
  }
  int calls = 0;
  team.run([&](int part) { calls += part == 0; });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadTeam, OfOneThreadIsItsCaller) {
  ThreadTeam team(1);
  int calls = 0;
  team.run([&](int) { ++calls; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace colossal
