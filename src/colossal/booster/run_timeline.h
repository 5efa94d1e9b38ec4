// Records when each rank's stages ran in some steps, and writes one file with the measured and the
// simulated timeline.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "colossal/booster/clock_alignment.h"
#include "colossal/booster/engine.h"
#include "colossal/booster/timed_action.h"
#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/report/trace.h"

namespace colossal {

// The recorded times of one rank.
struct RankTimes {
  int pipeline_rank = 0;  // coordinate along pp
  std::vector<PassedBarrier> barriers;
  std::vector<TimedAction> actions;  // in the order of their ends
};

// Returns the mean duration of each stage's computations, in seconds, over ranks and steps. If the
// schedule does not split backward passes, the whole backward pass counts as input_gradient.
parallel::pipeline::Costs measured_costs(std::span<const RankTimes> ranks, int num_stages);

// Returns a better cut of the model's blocks, computed from the durations of the stages in the
// present cut. The cost of a block is the mean over the stages between the first and the last, or,
// if there are none, that of the first stage. Returns {} if the slowest stage would not become
// clearly faster.
std::vector<int> better_cut(const parallel::pipeline::Costs& measured,
                            const std::vector<int64_t>& stage_blocks);

struct RunTimelineResult {
  std::vector<report::TraceEvent> events;
  parallel::pipeline::Costs costs;  // measured_costs()
  int64_t steps = 0;
  double measured = 0;      // mean seconds of a step from its first to its last computation
  double simulated = 0;     // the same for a simulation of `schedule` with measured_costs()
  double bubble_share = 0;  // in the simulation
  double uncertainty = 0;   // remaining error of the clock alignment of ranks, in seconds
};

// Converts all times to the clock of rank 0, counted from the first action. Each rank has a row
// "measured" and a row "simulated". A simulated step begins when the first rank began the measured
// step.
RunTimelineResult make_timeline(std::vector<RankTimes> ranks,
                                const parallel::pipeline::Schedule& schedule);

// Records from construction to finish().
class RunTimeline {
 public:
  // `engine` must outlive it.
  explicit RunTimeline(Engine& engine) : engine_(engine) { engine_.record_actions(&actions_); }
  ~RunTimeline() { engine_.record_actions(nullptr); }
  RunTimeline(const RunTimeline&) = delete;
  RunTimeline& operator=(const RunTimeline&) = delete;

  // Ends the recording and returns the times of all ranks. Collective.
  std::vector<RankTimes> finish();

 private:
  Engine& engine_;
  std::vector<TimedAction> actions_;
};

// Writes timeline.json into `directory` and returns a summary for people. Throws IoError.
std::string write_timeline(std::vector<RankTimes> ranks, Engine& engine,
                           const std::filesystem::path& directory);

}  // namespace colossal
