#include "colossal/parallel/pipeline/in_flight.h"

#include <gmock/gmock.h>

#include "colossal/parallel/pipeline/schedules.h"
#include "tests/pipeline/cases.h"

namespace colossal::parallel::pipeline {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

std::vector<InFlight> in_flight(const std::string& name, const PipelineShape& shape) {
  return in_flight_of_ranks(make_schedule(name, shape));
}

int most_held(const std::vector<InFlight>& ranks) {
  return std::ranges::max(ranks, {}, &InFlight::held).held;
}

TEST(HeldStates, AreThoseOfAllMomentsAtEachRank) {
  using States = std::set<std::vector<int>>;
  using enum ActionKind;
  Schedule schedule;
  schedule.num_micro_batches = 2;
  schedule.rank_of_stage = {0, 1, 1};
  schedule.actions = {{{forward, 0, 0}, {receive_backward, 0, 0}, {forward, 0, 1}},
                      {{receive_forward, 1, 0},
                       {forward, 1, 0},
                       {forward, 2, 0},
                       {backward_input, 2, 0},
                       {backward, 1, 0},
                       {backward_weight, 2, 0}}};
  // Of one stage and of two; at last, of the last micro-batch.
  const auto states = held_states_of_ranks(schedule);
  EXPECT_EQ(states[0],
            (States{{1, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 1, 0, 0, 0}, {2, 0, 0, 1, 0, 0, 1}}));
  EXPECT_EQ(states[1], (States{{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                               {1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0},
                               {1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0},
                               {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0},
                               {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0},
                               {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}));
}

TEST(InFlight, OfGpipeAllMicroBatches) {
  for (const InFlight& rank : in_flight("gpipe", {4, 1, 9})) EXPECT_EQ(rank.held, 9);
}

TEST(InFlight, Of1f1bAsManyAsRanksBehindAndOne) {
  for (const int p : kRanks) {
    for (const int m : {1, 2, p, 3 * p + 1}) {
      const std::vector<InFlight> ranks = in_flight("1f1b", {p, 1, m});
      for (int rank = 0; rank < p; ++rank) {
        EXPECT_EQ(ranks[rank].held, std::min(m, p - rank));
        EXPECT_EQ(ranks[rank].weight_gradients, 0);
      }
    }
  }
}

// p (1 + (p - 1) / (p v)) micro-batches at the first rank, of which a rank has v chunks.
TEST(InFlight, OfInterleaved) {
  for (const int p : kRanks) {
    for (const int v : {2, 3, 4}) {
      EXPECT_EQ(in_flight("interleaved", {p, v, 3 * p})[0].held, p * v + p - 1);
    }
  }
}

TEST(InFlight, OfZeroBubbleH1AsMuchAs1f1bAtEveryRank) {
  for (const int p : kRanks) {
    for (const InFlight& rank : in_flight("zb-h1", {p, 1, 3 * p})) EXPECT_EQ(rank.held, p);
  }
}

TEST(InFlight, OfZeroBubbleH2TwiceAsMuch) {
  for (const int p : kRanks) {
    for (const InFlight& rank : in_flight("zb-h2", {p, 1, 3 * p})) EXPECT_EQ(rank.held, 2 * p - 1);
  }
}

// In micro-batches, each of two chunks a rank: p, (p + 2) / 2 and (p + 4) / 3, rounded down, at
// most.
TEST(InFlight, OfVSchedules) {
  for (const int p : kRanks) {
    if (p == 1) continue;
    for (const int m : {3 * p, 4 * p + 1}) {
      SCOPED_TRACE(testing::Message() << p << " ranks, " << m << " micro-batches");
      EXPECT_EQ(most_held(in_flight("zb-v", {p, 2, m})), 2 * p);
      EXPECT_EQ(most_held(in_flight("v-half", {p, 2, m})), 2 * ((p + 2) / 2));
      EXPECT_EQ(most_held(in_flight("v-min", {p, 2, m})), 2 * ((p + 4) / 3));
    }
  }
}

TEST(InFlight, OfDualPipeV) {
  for (const int p : kRanks) {
    for (const InFlight& rank : in_flight("dualpipe-v", {p, 2, 4 * p})) {
      EXPECT_EQ(rank.held, 2 * p + 1);
    }
  }
}

// F0 F1 I0 W0 F2 I1 W1 I2 W2, and F0 I0 F1 I1 W0 F2 I2 W1 W2.
TEST(InFlight, TellsActivationsFromWhatWeightGradientsNeed) {
  const std::vector<InFlight> ranks = in_flight("zb-h1", {2, 1, 3});
  EXPECT_EQ(ranks[0].activations, 2);
  EXPECT_EQ(ranks[0].weight_gradients, 1);
  EXPECT_EQ(ranks[1].activations, 1);
  EXPECT_EQ(ranks[1].weight_gradients, 2);
  EXPECT_EQ(ranks[1].held, 2);
}

TEST(InFlight, InBytes) {
  const Schedule schedule = make_schedule("zb-h1", {2, 1, 3});
  const StageMemory stages[] = {{100, 10}, {1000, 600}};
  // Rank 0: two activations. Rank 1: one activation and one that waits for its weight gradient.
  EXPECT_THAT(peak_bytes_of_ranks(schedule, stages), ElementsAre(DoubleEq(200), DoubleEq(1600)));
}

}  // namespace
}  // namespace colossal::parallel::pipeline
