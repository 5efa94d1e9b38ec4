#include "colossal/cluster/stop_request.h"

#include <gtest/gtest.h>

namespace colossal::cluster {
namespace {

using namespace std::chrono_literals;
using Meaning = StopRequests::Meaning;

class Requests : public testing::Test {
 protected:
  Meaning at(std::chrono::milliseconds time, int signal) {
    return requests_.take(signal, start_ + time);
  }

  const StopRequests::Clock::time_point start_ = StopRequests::Clock::now();
  StopRequests requests_;
};

TEST_F(Requests, what_comes_within_a_second_is_one) {
  EXPECT_FALSE(requests_.any());
  EXPECT_EQ(at(0ms, SIGTERM), Meaning::first);
  EXPECT_TRUE(requests_.any());
  EXPECT_EQ(at(0ms, SIGTERM), Meaning::repeated);
  EXPECT_EQ(at(900ms, SIGINT), Meaning::repeated);
}

TEST_F(Requests, a_later_one_insists) {
  EXPECT_EQ(at(0ms, SIGINT), Meaning::first);
  EXPECT_EQ(at(1000ms, SIGTERM), Meaning::insists);
}

TEST_F(Requests, those_before_it_do_not_put_it_off) {
  at(0ms, SIGINT);
  at(700ms, SIGINT);
  EXPECT_EQ(at(1400ms, SIGINT), Meaning::insists);
}

TEST_F(Requests, neither_a_notice_nor_what_follows_it_insists) {
  EXPECT_EQ(at(0ms, SIGUSR1), Meaning::first);
  EXPECT_EQ(at(5s, SIGUSR1), Meaning::repeated);
  EXPECT_EQ(at(60s, SIGTERM), Meaning::repeated);
  EXPECT_EQ(at(62s, SIGUSR1), Meaning::repeated);
  EXPECT_EQ(at(63s, SIGTERM), Meaning::insists);
}

}  // namespace
}  // namespace colossal::cluster
