#include "colossal/cluster/failure.h"

#include <gmock/gmock.h>

namespace colossal::cluster {
namespace {

Failure exited(int rank, int code, std::string text = "") {
  return {.who = "rank " + std::to_string(rank),
          .event = "exited with code " + std::to_string(code),
          .text = std::move(text),
          .exit_code = code};
}

Failure killed(int rank) {
  return {.who = "rank " + std::to_string(rank), .event = "was killed", .sudden = true};
}

TEST(Failure, describes_itself_with_what_the_rank_said) {
  EXPECT_EQ(exited(1, 2).describe(), "rank 1 exited with code 2");
  EXPECT_EQ(exited(1, 2, "no file").describe(), "rank 1 exited with code 2: no file");
}

TEST(Failure, knows_the_names_of_signals) {
  EXPECT_EQ(signal_name(9), "SIGKILL");
  EXPECT_EQ(signal_name(4711), "");
}

TEST(JobOutcome, a_killed_rank_is_the_cause_whoever_ended_before) {
  JobOutcome outcome(3);
  EXPECT_FALSE(outcome.failed());
  outcome.add_local(exited(0, 3));
  outcome.add_local(exited(2, 1));
  outcome.add_local(killed(1));
  EXPECT_TRUE(outcome.failed());
  EXPECT_EQ(outcome.cause().who, "rank 1");
  EXPECT_EQ(outcome.cause().exit_code, 3);
  EXPECT_EQ(outcome.message(), "rank 1 was killed");
}

TEST(JobOutcome, code_3_is_a_consequence_where_there_is_another_code) {
  JobOutcome outcome(2);
  outcome.add_local(exited(0, 3, "rank 1 is lost"));
  EXPECT_EQ(outcome.cause().who, "rank 0");
  outcome.add_local(exited(1, 1, "disk full"));
  EXPECT_EQ(outcome.cause().who, "rank 1");
  EXPECT_EQ(outcome.cause().exit_code, 1);
  EXPECT_FALSE(outcome.all_failed_alike());
}

TEST(JobOutcome, knows_whether_all_wait_for_another) {
  JobOutcome outcome(3);
  outcome.add_local(exited(0, 3, "rank 2 did not come"));
  outcome.add_local(exited(1, 3));
  EXPECT_TRUE(outcome.all_blame_another_rank());
  EXPECT_EQ(outcome.messages_of_ranks(),
            std::vector<std::string>{"rank 0 exited with code 3: rank 2 did not come"});
  outcome.add_local(exited(2, 1, "disk full"));
  EXPECT_FALSE(outcome.all_blame_another_rank());
  EXPECT_EQ(outcome.messages_of_ranks().size(), 2U);
}

TEST(JobOutcome, says_once_what_all_ranks_found) {
  JobOutcome outcome(2);
  outcome.add_local(exited(0, 2, "no such key"));
  EXPECT_FALSE(outcome.all_failed_alike()) << "one rank still runs";
  outcome.add_local(exited(1, 2, "no such key"));
  EXPECT_TRUE(outcome.all_failed_alike());
  EXPECT_EQ(outcome.message(), "no such key");
}

TEST(JobOutcome, another_hosts_rank_counts) {
  JobOutcome outcome(1);
  outcome.add_local(exited(0, 3));
  outcome.add_remote(exited(1, 1));
  EXPECT_FALSE(outcome.all_failed_alike());
  EXPECT_EQ(outcome.cause().who, "rank 1");
}

TEST(JobOutcome, another_hosts_same_code_is_alike) {
  JobOutcome outcome(1);
  outcome.add_local(exited(0, 2));
  outcome.add_remote(exited(1, 2));
  EXPECT_TRUE(outcome.all_failed_alike());
  EXPECT_EQ(outcome.message(), "all 1 ranks of this host exited with code 2");
}

TEST(JobOutcome, ranks_that_say_nothing_are_named) {
  JobOutcome alone(1), both(2);
  alone.add_local(exited(0, 1));
  EXPECT_EQ(alone.message(), "rank 0 exited with code 1");
  both.add_local(exited(1, 1));
  both.add_local(exited(0, 1));
  EXPECT_EQ(both.message(), "all 2 ranks exited with code 1");
}

TEST(JobOutcome, missing_a_rank_that_was_stopped_is_no_failure) {
  JobOutcome outcome(3);
  outcome.add_local(exited(0, 3, "rank 1 is lost"));
  EXPECT_TRUE(outcome.failed());
  outcome.note_stopped();
  EXPECT_FALSE(outcome.failed());
  outcome.add_local(exited(2, 1, "disk full"));
  EXPECT_TRUE(outcome.failed());
  EXPECT_EQ(outcome.cause().exit_code, 1);
}

}  // namespace
}  // namespace colossal::cluster
