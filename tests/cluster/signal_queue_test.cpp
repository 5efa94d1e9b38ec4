#include "colossal/cluster/signal_queue.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <latch>
#include <thread>

namespace colossal::cluster {
namespace {

// Otherwise such a thread takes the signal now and then, and whoever waits for it waits for ever.
TEST(CallWithoutSignals, ThreadsThatStayTakeNoSignalOfALaterQueue) {
  std::latch end(1);
  std::thread stays;
  EXPECT_EQ(call_without_signals([&] {
              stays = std::thread([&] { end.wait(); });
              return 7;
            }),
            7);
  SignalQueue signals(std::array{SIGCHLD});
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    pollfd polled{signals.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, 5000), 1) << "child " << i;
    EXPECT_EQ(signals.take(), std::vector{SIGCHLD});
    waitpid(child, nullptr, 0);
  }
  end.count_down();
  stays.join();
}

TEST(CallWithoutSignals, ErrorsAreThoseOfTheFunction) {
  EXPECT_THROW(call_without_signals([]() -> int { throw std::runtime_error("no"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace colossal::cluster
