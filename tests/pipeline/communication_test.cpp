#include "colossal/parallel/pipeline/communication.h"

#include <gmock/gmock.h>

#include "colossal/parallel/pipeline/schedules.h"
#include "colossal/parallel/pipeline/validator.h"
#include "tests/pipeline/cases.h"

namespace colossal::parallel::pipeline {
namespace {

std::string actions_of(const Schedule& schedule, int rank) {
  std::string text;
  for (const Action& action : schedule.actions[rank]) text += action_name(action) + " ";
  return text;
}

TEST(Communication, SendsRightAfterAndAsksAheadAsBuffersAllow) {
  EXPECT_EQ(actions_of(make_schedule("1f1b", {2, 1, 3, 1}), 0),
            "RB0.0 F0.0 SF0.0 F0.1 SF0.1 B0.0 RB0.1 F0.2 SF0.2 B0.1 RB0.2 B0.2 ");
  EXPECT_EQ(actions_of(make_schedule("1f1b", {2, 1, 3, 1}), 1),
            "RF1.0 F1.0 RF1.1 B1.0 SB1.0 F1.1 RF1.2 B1.1 SB1.1 F1.2 B1.2 SB1.2 ");
  EXPECT_EQ(actions_of(make_schedule("1f1b", {2, 1, 3, 3}), 1),
            "RF1.0 RF1.1 RF1.2 F1.0 B1.0 SB1.0 F1.1 B1.1 SB1.1 F1.2 B1.2 SB1.2 ");
}

TEST(Communication, HasNoMessagesWithinARank) {
  EXPECT_EQ(actions_of(make_schedule("zb-v", {1, 2, 1}), 0), "F0.0 F1.0 I1.0 I0.0 W1.0 W0.0 ");
  const std::string turn = actions_of(make_schedule("v-min", {2, 2, 1}), 1);
  EXPECT_THAT(turn, testing::HasSubstr("F1.0 F2.0 SF2.0 "));
}

// 2 (stages - 1) m, less the turn of a V: as many as there are boundaries between ranks.
TEST(Communication, HasAMessageForEachBoundaryAndDirection) {
  for (const ScheduleCase& one : schedule_cases({2, 3, 4})) {
    const Schedule schedule = make_schedule(one.name, one.shape);
    int boundaries = 0;
    for (int stage = 1; stage < schedule.num_stages(); ++stage) {
      boundaries += schedule.rank_of_stage[stage] != schedule.rank_of_stage[stage - 1];
    }
    int sends = 0, receives = 0;
    for (const std::vector<Action>& actions : schedule.actions) {
      for (const Action& action : actions) {
        sends += is_send(action.kind);
        receives += is_receive(action.kind);
      }
    }
    EXPECT_EQ(sends, 2 * boundaries * one.shape.num_micro_batches) << case_name(one);
    EXPECT_EQ(receives, sends) << case_name(one);
  }
}

// A stage that takes its micro-batches in another order than they come: what comes first is asked
// for first, which takes a buffer more.
TEST(Communication, AsksInTheOrderOfTheSends) {
  Schedule schedule;
  schedule.name = "crossed";
  schedule.num_micro_batches = 2;
  schedule.rank_of_stage = {0, 1};
  const auto pass = [](ActionKind kind, int stage, int i) { return Action{kind, stage, i}; };
  schedule.actions = {{pass(ActionKind::forward, 0, 0), pass(ActionKind::forward, 0, 1),
                       pass(ActionKind::backward, 0, 1), pass(ActionKind::backward, 0, 0)},
                      {pass(ActionKind::forward, 1, 1), pass(ActionKind::backward, 1, 1),
                       pass(ActionKind::forward, 1, 0), pass(ActionKind::backward, 1, 0)}};
  const Schedule with_two = with_communication(schedule, 2);
  EXPECT_EQ(actions_of(with_two, 1), "RF1.0 RF1.1 F1.1 B1.1 SB1.1 F1.0 B1.0 SB1.0 ");
  EXPECT_FALSE(first_conflict(with_two).has_value());
  const auto conflict = first_conflict(with_communication(schedule, 1));
  ASSERT_TRUE(conflict.has_value());
  EXPECT_THAT(conflict->message,
              testing::HasSubstr("rank 1, position 1: RF1.1 waits for a buffer"));
}

}  // namespace
}  // namespace colossal::parallel::pipeline
