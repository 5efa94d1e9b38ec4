// The timeline of a run: clocks of several hosts, measured beside simulated.
#include "colossal/training/run_timeline.h"

#include <gtest/gtest.h>

#include "colossal/parallel/pipeline/schedules.h"

namespace colossal::test::run_timeline {
namespace {

using parallel::pipeline::Action;
using parallel::pipeline::Schedule;
using parallel::pipeline::Simulation;

// Barriers of which the last rank enters `late` seconds after the others, and that take each rank
// some more to leave.
std::vector<PassedBarrier> barriers_seen(int rank, double ahead) {
  std::vector<PassedBarrier> seen;
  for (const int i : {0, 1, 2, 3, 4}) {
    const double met = 10.0 * i, late = i == rank ? 0 : 0.01 * (i + 1);
    seen.push_back({met - late + ahead, met + 0.002 * (1 + (i + rank) % 3) + ahead});
  }
  return seen;
}

TEST(ClockOffsets, AreWithinTheirUncertainty) {
  const std::vector<double> ahead{0, 5000, -3, 0};
  std::vector<std::vector<PassedBarrier>> seen;
  for (int rank = 0; rank < 4; ++rank) seen.push_back(barriers_seen(rank, ahead[rank]));
  const std::vector<ClockOffset> offsets = clock_offsets(seen);
  ASSERT_EQ(offsets.size(), 4U);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_LE(std::abs(offsets[rank].seconds - ahead[rank]), offsets[rank].uncertainty + 1e-9);
    EXPECT_LT(offsets[rank].uncertainty, 0.03);
  }
  EXPECT_EQ(offsets[3].seconds, 0) << "nothing speaks against it";
}

// Ranks on clocks of their own that carried a schedule out exactly as it is simulated.
std::vector<RankTimes> perfect_run(const Schedule& schedule, const Simulation& simulation,
                                   const std::vector<double>& ahead, int64_t steps) {
  std::vector<RankTimes> ranks;
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    RankTimes times{.pipeline_rank = rank, .barriers = {}, .actions = {}};
    for (const double met : {1.0, 2.0})
      times.barriers.push_back({met + ahead[rank], met + ahead[rank]});
    for (int64_t step = 1; step <= steps; ++step) {
      const double begin = 100.0 * static_cast<double>(step) + ahead[rank];
      for (size_t i = 0; i < schedule.actions[rank].size(); ++i) {
        const Action& action = schedule.actions[rank][i];
        if (!parallel::pipeline::is_computation(action.kind)) continue;
        const auto& span = simulation.spans[rank][i];
        times.actions.push_back({action, false, step, begin + span.start, begin + span.end});
      }
    }
    ranks.push_back(times);
  }
  return ranks;
}

TEST(RunTimeline, OfARunThatIsAsSimulatedIsTheSimulation) {
  for (const char* name : {"1f1b", "zb-h1"}) {
    const Schedule schedule = parallel::pipeline::make_schedule(name, {3, 1, 4});
    const parallel::pipeline::Costs costs{
        .stages = {{1, 2, 1}, {2, 2, 1}, {1, 3, 2}}, .messages = {}, .overlapped_share = {}};
    const Simulation simulation = simulate(schedule, costs);
    const RunTimelineResult timeline =
        make_timeline(perfect_run(schedule, simulation, {0, 7000, -50}, 2), schedule);
    EXPECT_EQ(timeline.steps, 2);
    EXPECT_NEAR(timeline.measured, simulation.makespan, 1e-6);
    EXPECT_NEAR(timeline.simulated, simulation.makespan, 1e-6);
    EXPECT_NEAR(timeline.bubble_share, simulation.bubble_share(), 1e-6);
    std::map<std::tuple<int, int64_t, std::string>, std::map<std::string, double>> starts;
    for (const report::TraceEvent& event : timeline.events) {
      starts[{event.rank, std::get<int64_t>(event.arguments[0].second), event.name}][event.thread] =
          event.start_microseconds;
    }
    EXPECT_GE(starts.size(), 3U * 2 * 8);
    for (const auto& [what, rows] : starts) {
      ASSERT_EQ(rows.size(), 2U) << std::get<2>(what);
      EXPECT_NEAR(rows.at("measured"), rows.at("simulated"), 1.0) << std::get<2>(what);
    }
  }
}

// Three a block, six more in the last stage.
TEST(BetterCut, CountsWhatTheEndsTakeBesideTheirBlocks) {
  parallel::pipeline::Costs measured{
      .stages = {{4, 4, 4}, {4, 4, 4}, {6, 6, 6}}, .messages = {}, .overlapped_share = {}};
  const std::vector<int> cut = better_stage_blocks(measured, {4, 4, 4});
  ASSERT_EQ(cut.size(), 3U);
  EXPECT_EQ(cut[0] + cut[1] + cut[2], 12);
  EXPECT_LE(3 * std::max({cut[0], cut[1], cut[2] + 2}), 15);
  measured.stages[2] = {4, 4, 4};
  EXPECT_TRUE(better_stage_blocks(measured, {4, 4, 4}).empty());
  // Of two stages the first says what a block takes.
  measured.stages = {{8, 8, 8}, {3, 3, 3}};
  EXPECT_EQ(better_stage_blocks(measured, {6, 2}), (std::vector<int>{4, 4}));
}

}  // namespace
}  // namespace colossal::test::run_timeline
