#include "colossal/base/thread_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace colossal {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// In a process of its own: the handlers stay.
TEST(ThreadStacksDeathTest, AllThreadsAreWrittenAndTheProcessGoesOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        write_stacks_on_sigquit("rank 7");
        std::atomic<bool> ends{false};
        std::thread busy([&] {
          while (!ends) {
          }
        });
        std::thread asks([] {  // when this thread sleeps
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          kill(getpid(), SIGQUIT);
        });
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        ends = true;
        busy.join();
        asks.join();
        exit(5);
      },
      testing::ExitedWithCode(5),
      AllOf(HasSubstr("rank 7 (pid "), HasSubstr("nanosleep"), HasSubstr("test_base")));
}

}  // namespace
}  // namespace colossal
