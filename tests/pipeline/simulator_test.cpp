#include "colossal/parallel/pipeline/simulator.h"

#include <gmock/gmock.h>

#include "colossal/base/error.h"
#include "colossal/parallel/pipeline/communication.h"
#include "colossal/parallel/pipeline/schedules.h"
#include "tests/pipeline/cases.h"

namespace colossal::parallel::pipeline {
namespace {

// Times are whole numbers, so that sums are exact.
constexpr StageCosts kStages[] = {{1, 1, 1}, {4, 5, 3}, {2, 3, 1}, {3, 2, 2},
                                  {5, 5, 5}, {2, 2, 3}, {2, 5, 1}};

double sum_of(const StageCosts& stage) {
  return stage.forward + stage.input_gradient + stage.weight_gradient;
}

Simulation simulated(const std::string& name, const PipelineShape& shape, StageCosts stage) {
  const Costs costs = equal_costs(shape, stage);
  return simulate(make_schedule(name, shape, costs), costs);
}

double largest_bubble(const Simulation& simulation) {
  double largest = 0;
  for (const SimulatedRank& rank : simulation.ranks) largest = std::max(largest, rank.bubble());
  return largest;
}

// Of all ranks: what they wait until the end of the whole.
void expect_idle(const Simulation& simulation, double idle) {
  for (size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    EXPECT_EQ(simulation.idle(static_cast<int>(rank)), idle) << "rank " << rank;
  }
}

template <class Check>
void for_each_size(int at_least_times_ranks, Check check) {
  for (const int p : kRanks) {
    for (const int m : {p, p + 1, 2 * p - 1, 2 * p, 2 * p + 1, 3 * p, 4 * p + 3}) {
      if (m < at_least_times_ranks * p) continue;
      for (const StageCosts& stage : kStages) {
        SCOPED_TRACE(testing::Message()
                     << p << " ranks, " << m << " micro-batches, costs " << stage.forward << " "
                     << stage.input_gradient << " " << stage.weight_gradient);
        check(p, m, stage);
      }
    }
  }
}

// (p - 1)(F + I + W), and so (p - 1) of m + p - 1 parts of the time.
TEST(Bubble, OfGpipeAnd1f1b) {
  for (const std::string name : {"gpipe", "1f1b"}) {
    for_each_size(0, [&](int p, int m, const StageCosts& stage) {
      const Simulation simulation = simulated(name, {p, 1, m}, stage);
      EXPECT_EQ(simulation.makespan, (m + p - 1) * sum_of(stage));
      expect_idle(simulation, (p - 1) * sum_of(stage));
      EXPECT_DOUBLE_EQ(simulation.bubble_share(), (p - 1.0) / (m + p - 1));
    });
  }
}

TEST(Bubble, Of1f1bWithFewerMicroBatchesThanRanks) {
  for (int m = 1; m < 6; ++m) {
    EXPECT_EQ(simulated("1f1b", {6, 1, m}, {4, 5, 3}).makespan, (m + 5) * 12.0);
  }
}

// (p - 1)(F + I + W) of a chunk: of a rank's layers, divided by the chunks.
TEST(Bubble, OfInterleaved) {
  for (const int v : {2, 3, 4}) {
    for_each_size(1, [&](int p, int m, const StageCosts& stage) {
      if (m % p != 0) return;
      const Simulation simulation = simulated("interleaved", {p, v, m}, stage);
      EXPECT_EQ(simulation.makespan, (m * v + p - 1) * sum_of(stage));
      expect_idle(simulation, (p - 1) * sum_of(stage));
    });
  }
}

// (p - 1)(F + I - W), where W is no longer than I: the first micro-batch needs (p - 1) F to the
// last rank in any case.
TEST(Bubble, OfZeroBubbleH1) {
  for_each_size(1, [&](int p, int m, const StageCosts& stage) {
    const double bubble =
        stage.forward + std::max(0.0, stage.input_gradient - stage.weight_gradient);
    expect_idle(simulated("zb-h1", {p, 1, m}, stage), (p - 1) * bubble);
  });
}

// (p - 1)(F + I - 2 W) within the span of the rank that waits most, the first; in all no less than
// the way of the first micro-batch to the last rank.
TEST(Bubble, OfZeroBubbleH2) {
  for_each_size(2, [&](int p, int m, const StageCosts& stage) {
    const double bubble =
        std::max(0.0, stage.forward + stage.input_gradient - 2 * stage.weight_gradient);
    const Simulation simulation = simulated("zb-h2", {p, 1, m}, stage);
    EXPECT_EQ(largest_bubble(simulation), (p - 1) * bubble);
    EXPECT_EQ(simulation.makespan, m * sum_of(stage) + (p - 1) * std::max(bubble, stage.forward));
  });
}

// What a step takes where all ranks agree on its update before the next one begins, and what it
// would take where none waits for that: as long as the rank that takes longest from its first
// computation to its last. docs/pipeline.md has these numbers.
TEST(Bubble, OfTheAgreementBetweenSteps) {
  struct Case {
    std::string name;
    PipelineShape shape;
    double together, apart;
  };
  for (const Case& c : {Case{"1f1b", {4, 1, 8}, 66, 66},
                        {"1f1b", {8, 1, 32}, 234, 234},
                        {"zb-h1", {4, 1, 8}, 54, 54},
                        {"zb-h1", {8, 1, 32}, 206, 206},
                        {"zb-h2", {4, 1, 8}, 54, 48},
                        {"zb-h2", {8, 1, 32}, 206, 192},
                        {"zb-h2", {16, 1, 64}, 414, 384},
                        {"zb-v", {4, 2, 8}, 51, 48},
                        {"zb-v", {8, 2, 32}, 199, 192},
                        {"zb-v", {16, 2, 64}, 399, 384}}) {
    SCOPED_TRACE(testing::Message() << c.name << " on " << c.shape.num_ranks << " ranks");
    const double part = 2.0 / c.shape.chunks;
    const Simulation simulation = simulated(c.name, c.shape, {part, part, part});
    double longest = 0;
    for (const SimulatedRank& rank : simulation.ranks) {
      longest = std::max(longest, rank.end - rank.start);
    }
    EXPECT_EQ(simulation.makespan, c.together);
    EXPECT_EQ(longest, c.apart);
  }
}

// With parts of equal length no rank waits within its span.
TEST(Bubble, OfZeroBubbleV) {
  for (const int p : kRanks) {
    for (const int m : {2 * p - 1, 2 * p, 2 * p + 1, 4 * p, 50}) {
      const Simulation simulation = simulated("zb-v", {p, 2, m}, {1, 1, 1});
      EXPECT_EQ(largest_bubble(simulation), 0) << p << " ranks, " << m << " micro-batches";
      EXPECT_EQ(simulation.makespan, 6 * m + p - 1);
    }
  }
}

// At most half and two thirds of 1f1b's (p - 1)(F + I + W), which is 6 (p - 1) with chunks of half
// the layers.
TEST(Bubble, OfVHalfAndVMin) {
  for (const int p : kRanks) {
    for (const int m : {p, 2 * p - 1, 2 * p, 4 * p, 50}) {
      if (m < p) continue;
      const double bubble_1f1b = 6 * (p - 1);
      SCOPED_TRACE(testing::Message() << p << " ranks, " << m << " micro-batches");
      EXPECT_LE(largest_bubble(simulated("v-half", {p, 2, m}, {1, 1, 1})), bubble_1f1b / 2);
      EXPECT_LE(largest_bubble(simulated("v-min", {p, 2, m}, {1, 1, 1})), bubble_1f1b * 2 / 3);
    }
  }
}

// (p - 1)(F&B + B - 3 W) with B = I + W where a forward and a backward that run together give their
// results together. F&B is what the two take then.
TEST(Bubble, OfDualPipeVWithPairsAtTheSameTime) {
  for (const int p : kRanks) {
    for (const int m : {2 * p, 2 * p + 1, 4 * p, 50}) {
      for (const double share : {1.0, 0.75}) {
        Costs costs = equal_costs({p, 2, m}, {4, 4, 4});
        costs.overlapped_share = share;
        const Simulation simulation = simulate(make_schedule("dualpipe-v", {p, 2, m}), costs);
        const double pair = share * 12, backward = 8, weight = 4;
        double longest = 0;
        for (int rank = 0; rank < p; ++rank) longest = std::max(longest, simulation.idle(rank));
        EXPECT_EQ(longest, (p - 1) * (pair + backward - 3 * weight))
            << p << " ranks, " << m << " micro-batches, share " << share;
      }
    }
  }
}

// One after the other, the forward's result leaves earlier: (p - 1)(F + I - W).
TEST(Bubble, OfDualPipeVWithPairsOneAfterTheOther) {
  for (const int p : kRanks) {
    for (const int m : {2 * p, 2 * p + 1, 4 * p, 50}) {
      expect_idle(simulated("dualpipe-v", {p, 2, m}, {4, 4, 4}), (p - 1) * 4);
    }
  }
}

// A long row of micro-batches leaves only the bubble.
TEST(Simulator, NoScheduleBeatsTheWork) {
  for (const ScheduleCase& one : schedule_cases({1, 2, 4, 7})) {
    const Simulation simulation = simulated(one.name, one.shape, {2, 3, 1});
    for (const SimulatedRank& rank : simulation.ranks) {
      EXPECT_EQ(rank.busy, 6.0 * one.shape.chunks * one.shape.num_micro_batches) << case_name(one);
      EXPECT_GE(rank.bubble(), 0) << case_name(one);
    }
  }
}

// Two ranks, one micro-batch: every message is on the way of everything.
TEST(Simulator, MessagesTakeTheirTime) {
  Costs costs = equal_costs({3, 1, 1}, {1, 1, 1});
  costs.messages = {10, 100};
  const Simulation simulation = simulate(make_schedule("1f1b", {3, 1, 1}), costs);
  EXPECT_EQ(simulation.makespan, 3 * 3 + 2 * (10 + 100));
  EXPECT_EQ(message_seconds(1000, 0.5, 500), 2.5);
}

// Messages travel while the ranks compute: with time between, they cost nothing but the way there
// and back.
TEST(Simulator, MessagesTravelUnderComputation) {
  const PipelineShape shape{2, 1, 8};
  Costs costs = equal_costs(shape, {10, 10, 10});
  const Schedule schedule = make_schedule("gpipe", shape);
  const double without = simulate(schedule, costs).makespan;
  costs.messages = {3};
  EXPECT_EQ(simulate(schedule, costs).makespan, without + 2 * 3);
}

// A channel carries one message after the other.
TEST(Simulator, MessagesOfAChannelFollowEachOther) {
  const PipelineShape shape{2, 1, 4, 4};
  Costs costs = equal_costs(shape, {1, 1, 1});
  costs.messages = {5};
  const Simulation simulation = simulate(make_schedule("gpipe", shape, costs), costs);
  // The first is sent at 1 and here at 6; the fourth at 21, and is computed until 22. Gradients
  // leave from 24 on, every 5 (a backward takes 2), and the last one is here at 44.
  EXPECT_EQ(simulation.makespan, 22 + 2 + 4 * 5 + 2);
}

// With one buffer a sender waits until the receiver asks for the message before.
TEST(Simulator, ASendWaitsForABuffer) {
  Schedule schedule;
  schedule.name = "four ahead";
  schedule.num_micro_batches = 4;
  schedule.rank_of_stage = {0, 1};
  schedule.actions.resize(2);
  for (int stage = 0; stage < 2; ++stage) {
    for (int i = 0; i < 4; ++i) schedule.actions[stage].push_back({ActionKind::forward, stage, i});
    for (int i = 0; i < 4; ++i) schedule.actions[stage].push_back({ActionKind::backward, stage, i});
  }
  Costs costs;
  costs.stages = {{1, 0, 0}, {10, 0, 0}};
  const auto last_forward = [&](int buffers) {
    const Schedule complete = with_communication(schedule, buffers);
    const Simulation simulation = simulate(complete, costs);
    const auto& actions = complete.actions[0];
    const auto place = std::ranges::find(actions, Action{ActionKind::forward, 0, 3});
    return simulation.spans[0][place - actions.begin()].end;
  };
  EXPECT_EQ(last_forward(4), 4);
  // Message 2 may leave when the receiver, at 11, has used message 0 and asks for message 1.
  EXPECT_EQ(last_forward(1), 12);
}

TEST(Simulator, RefusesAScheduleThatIsNotRight) {
  Schedule schedule = make_schedule("1f1b", {2, 1, 2});
  schedule.actions[0].pop_back();
  std::erase_if(schedule.actions[0], [](const Action& one) { return is_send(one.kind); });
  EXPECT_THROW(simulate(schedule), InternalError);
}

}  // namespace
}  // namespace colossal::parallel::pipeline
