#include "colossal/parallel/pipeline/schedules.h"

#include <gmock/gmock.h>

#include <map>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/validator.h"
#include "tests/pipeline/cases.h"

namespace colossal::parallel::pipeline {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::string& name, PipelineShape shape) {
  try {
    make_schedule(name, shape);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string computations_of(const Schedule& schedule, int rank) {
  std::string text;
  for (const Action& action : schedule.actions[rank]) {
    if (is_computation(action.kind)) text += action_name(action) + " ";
  }
  return text;
}

TEST(Schedules, AreRightAtEverySize) {
  for (const ScheduleCase& one : schedule_cases({std::begin(kRanks), std::end(kRanks)})) {
    for (const int buffers : {1, 2, 5}) {
      const auto conflict =
          first_conflict(make_schedule(one.name, with_buffers(one.shape, buffers)));
      ASSERT_FALSE(conflict.has_value())
          << case_name(one) << ", " << buffers << " buffers: " << conflict->message;
    }
  }
}

TEST(Schedules, AreRightWithUnequalCosts) {
  for (const ScheduleCase& one : schedule_cases({2, 3, 5, 8})) {
    Costs costs = equal_costs(one.shape, {});
    for (size_t stage = 0; stage < costs.stages.size(); ++stage) {
      costs.stages[stage] = {1 + 0.3 * (stage % 3), 2 - 0.2 * (stage % 4), 0.7 + 0.1 * stage};
    }
    costs.messages.assign(costs.stages.size() - 1, 0.25);
    const auto conflict = first_conflict(make_schedule(one.name, one.shape, costs));
    ASSERT_FALSE(conflict.has_value()) << case_name(one) << ": " << conflict->message;
  }
}

TEST(Schedules, OneForwardOneBackward) {
  const Schedule schedule = make_schedule("1f1b", {3, 1, 4});
  EXPECT_EQ(computations_of(schedule, 0), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 B0.2 B0.3 ");
  EXPECT_EQ(computations_of(schedule, 2), "F2.0 B2.0 F2.1 B2.1 F2.2 B2.2 F2.3 B2.3 ");
}

TEST(Schedules, InterleavedTakesItsChunksInTurn) {
  const Schedule schedule = make_schedule("interleaved", {2, 2, 4});
  EXPECT_EQ(computations_of(schedule, 0),
            "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3 ");
  EXPECT_EQ(computations_of(schedule, 1),
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3 ");
}

// The orders that reach the published bubbles.
TEST(Schedules, ZeroBubbleH1) {
  const Schedule schedule = make_schedule("zb-h1", {2, 1, 3});
  EXPECT_EQ(computations_of(schedule, 0), "F0.0 F0.1 I0.0 W0.0 F0.2 I0.1 W0.1 I0.2 W0.2 ");
  EXPECT_EQ(computations_of(schedule, 1), "F1.0 I1.0 F1.1 I1.1 W1.0 F1.2 I1.2 W1.1 W1.2 ");
}

TEST(Schedules, DualPipeVPairsForwardsAndBackwards) {
  const Schedule schedule = make_schedule("dualpipe-v", {2, 2, 5});
  std::map<std::string, int> pairs;
  for (const std::vector<Action>& actions : schedule.actions) {
    std::vector<Action> computations;
    for (const Action& one : actions) {
      if (is_computation(one.kind)) computations.push_back(one);
    }
    for (size_t i = 0; i < computations.size(); ++i) {
      if (!computations[i].overlaps_next) continue;
      ++pairs[kind_name(computations[i].kind) + kind_name(computations[i + 1].kind)];
    }
  }
  // Rank 0: 2 steps of the main part of two pairs, and one after it; rank 1: 3 of two, without the
  // first one, which turns at once.
  EXPECT_THAT(pairs, ElementsAre(testing::Pair("FB", 5 + 5)));
}

TEST(Schedules, PlaceStagesAlongTheRanksOrAsAV) {
  EXPECT_THAT(make_schedule("gpipe", {3, 1, 1}).rank_of_stage, ElementsAre(0, 1, 2));
  EXPECT_THAT(make_schedule("interleaved", {2, 3, 1}).rank_of_stage, ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(make_schedule("zb-v", {3, 2, 1}).rank_of_stage, ElementsAre(0, 1, 2, 2, 1, 0));
  const Schedule schedule = make_schedule("v-min", {3, 2, 1});
  EXPECT_EQ(chunk_of_stage(schedule, 1), 0);
  EXPECT_EQ(chunk_of_stage(schedule, 4), 1);
}

TEST(Schedules, AreThoseOfTheConfiguration) {
  std::vector<std::string> names;
  for (const BuiltInSchedule& one : schedules()) {
    names.emplace_back(one.name);
    EXPECT_GE(one.default_chunks, one.minimum_chunks);
    EXPECT_LE(one.default_chunks, one.maximum_chunks);
    EXPECT_FALSE(one.when_to_choose.empty());
  }
  EXPECT_THAT(names, ElementsAre("1f1b", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half",
                                 "v-min", "dualpipe-v"));
}

TEST(Schedules, RefuseWhatTheyHaveNot) {
  EXPECT_THAT(error_of("zb-h3", {2, 1, 2}),
              AllOf(HasSubstr("pp_schedule = \"zb-h3\""), HasSubstr("did you mean \"zb-h1\"?"),
                    HasSubstr("dualpipe-v")));
  EXPECT_THAT(error_of("1f1b", {2, 2, 2}),
              AllOf(HasSubstr("pp_chunks = 2"), HasSubstr("use pp_chunks = 1"),
                    HasSubstr("\"interleaved\"")));
  EXPECT_THAT(error_of("interleaved", {2, 1, 2}),
              AllOf(HasSubstr("2 or more stages a rank"), HasSubstr("use pp_chunks = 2")));
  EXPECT_THAT(error_of("zb-v", {2, 3, 2}), HasSubstr("use pp_chunks = 2"));
  EXPECT_THAT(error_of("1f1b", {0, 1, 2}), HasSubstr("0 ranks"));
  EXPECT_THAT(error_of("1f1b", {2, 1, 0}), HasSubstr("0 micro-batches"));
}

}  // namespace
}  // namespace colossal::parallel::pipeline
