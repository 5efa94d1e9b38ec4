#include "colossal/cluster/restart_policy.h"

#include <gtest/gtest.h>

namespace colossal::cluster {
namespace {

using Decision = RestartPolicy::Decision;
using std::chrono::seconds;

TEST(RestartPolicy, first_keeps_the_ranks_then_uses_fewer_then_gives_up) {
  RestartPolicy policy(3);
  EXPECT_EQ(policy.after_failure(false), Decision::same);
  EXPECT_EQ(policy.after_failure(false), Decision::smaller);
  EXPECT_EQ(policy.after_failure(false), Decision::smaller);
  EXPECT_EQ(policy.after_failure(false), Decision::give_up);
}

TEST(RestartPolicy, progress_makes_the_next_failure_the_first) {
  RestartPolicy policy(2);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(policy.after_failure(true), Decision::same);
    EXPECT_EQ(policy.after_failure(false), Decision::smaller);
  }
  EXPECT_EQ(policy.after_failure(false), Decision::give_up);
}

TEST(RestartPolicy, without_restarts_gives_up_at_once) {
  EXPECT_EQ(RestartPolicy(0).after_failure(false), Decision::give_up);
  EXPECT_EQ(RestartPolicy(0).after_failure(true), Decision::give_up);
}

TEST(RestartPolicy, waits_longer_and_longer_but_not_at_first) {
  RestartPolicy policy(100);
  const auto next = [&] {
    policy.after_failure(false);
    return policy.pause();
  };
  for (const int expected : {0, 1, 2, 4, 8, 16, 30, 30, 30}) EXPECT_EQ(next(), seconds(expected));
  policy.after_failure(true);
  EXPECT_EQ(policy.pause(), seconds(0));
}

}  // namespace
}  // namespace colossal::cluster
