#include "colossal/parallel/pipeline/list_scheduler.h"

#include <gmock/gmock.h>

#include <random>

#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/parallel/pipeline/schedules.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/parallel/pipeline/validator.h"
#include "tests/pipeline/cases.h"

namespace colossal::parallel::pipeline {
namespace {

Costs random_costs(const PipelineShape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> length(1, 9), message(0, 3);
  Costs costs;
  for (int stage = 0; stage < shape.num_ranks * shape.chunks; ++stage) {
    costs.stages.push_back(
        {double(length(random)), double(length(random)), double(length(random))});
    if (stage > 0) costs.messages.push_back(message(random));
  }
  return costs;
}

int most_held(const Schedule& schedule) {
  return std::ranges::max(in_flight_of_ranks(schedule), {}, &InFlight::held).held;
}

// Against the order for equal stages under the same costs: never longer, nor with more in flight.
TEST(ListScheduler, IsNoWorseThanTheOrderByHand) {
  int shorter = 0, all = 0;
  for (const std::string name : {"zb-h1", "zb-h2", "zb-v", "v-half", "v-min"}) {
    const int chunks = name[0] == 'v' || name == "zb-v" ? 2 : 1;
    for (const int p : {2, 3, 4, 6}) {
      for (const int m : {1, p, 3 * p + 1}) {
        for (unsigned seed = 0; seed < 8; ++seed) {
          const PipelineShape shape{p, chunks, m};
          const Costs costs = random_costs(shape, seed);
          const Schedule by_hand = make_schedule(name, shape),
                         fitted = make_schedule(name, shape, costs);
          ASSERT_FALSE(first_conflict(fitted).has_value());
          const int allowed = name == "zb-h1"   ? p
                              : name == "zb-h2" ? 2 * p - 1
                                                : most_held(by_hand);
          EXPECT_LE(most_held(fitted), std::max(allowed, 2)) << name << " " << p << " " << m;
          const double before = simulate(by_hand, costs).makespan;
          const double after = simulate(fitted, costs).makespan;
          if (chunks == 1) {
            EXPECT_LE(after, before) << name << " " << p << " " << m << " " << seed;
          }
          shorter += after < before;
          ++all;
        }
      }
    }
  }
  EXPECT_GT(shorter, all / 4) << "of " << all;
}

TEST(ListScheduler, FollowsCostsThatDiffer) {
  const PipelineShape shape{4, 1, 12};
  const auto makespans = [&](const std::string& name, int stage, StageCosts stage_costs) {
    Costs costs = equal_costs(shape, {2, 2, 2});
    costs.stages[stage] = stage_costs;
    return std::pair(simulate(make_schedule(name, shape), costs).makespan,
                     simulate(make_schedule(name, shape, costs), costs).makespan);
  };
  const auto [h1_by_hand, h1] = makespans("zb-h1", 2, {3, 3, 3});
  EXPECT_LT(h1, h1_by_hand);
  // As the last stage, with the head, may be: no weight gradients of its own to wait for.
  const auto [h2_by_hand, h2] = makespans("zb-h2", 3, {3, 3, 1});
  EXPECT_LT(h2, h2_by_hand);
}

// Ranks that could run far ahead of each other stop where messages have no buffers.
TEST(ListScheduler, KeepsToTheBuffers) {
  for (const int buffers : {1, 2}) {
    const PipelineShape shape{16, 2, 256, buffers};
    Costs costs;
    for (int stage = 0; stage < 32; ++stage)
      costs.stages.push_back({1 + 0.1 * (stage % 3), 1.3, 0.8});
    const auto conflict = first_conflict(make_schedule("zb-v", shape, costs));
    EXPECT_FALSE(conflict.has_value()) << conflict->message;
  }
}

// What is right as it is stays as it is.
TEST(ListScheduler, KeepsAnOrderThatItCannotShorten) {
  Schedule order;
  order.num_micro_batches = 2;
  order.rank_of_stage = {0};
  for (int i = 0; i < 2; ++i) {
    for (const ActionKind kind :
         {ActionKind::forward, ActionKind::backward_input, ActionKind::backward_weight}) {
      order.actions.resize(1);
      order.actions[0].push_back({kind, 0, i});
    }
  }
  EXPECT_EQ(list_schedule(order, {}, 1, 2), order);
  EXPECT_EQ(list_schedule(order, {}, 2, 2), order);
}

}  // namespace
}  // namespace colossal::parallel::pipeline
