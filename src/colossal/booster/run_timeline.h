// Records when each rank computed and waited in some steps, and writes one file with the measured
// timeline and a simulated one.
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

// Returns the mean duration of each stage's computations for a micro-batch, in seconds, over ranks
// and steps. If the schedule does not split backward passes, the whole backward pass counts as
// input_gradient, and weight_gradient is 0.
parallel::pipeline::Costs measured_costs(std::span<const RankTimes> ranks, int num_stages);

// Returns a better division of the model's blocks among stages: the number of blocks of each stage.
// measured: the durations with the present division, stage_blocks. The duration of a block is taken
// as the mean in the stages between the first and the last, or, if there are none, in the first
// stage. Returns {} if the slowest stage would not become clearly faster.
std::vector<int> better_cut(const parallel::pipeline::Costs& measured,
                            const std::vector<int64_t>& stage_blocks);

struct RunTimelineResult {
  std::vector<report::TraceEvent> events;
  parallel::pipeline::Costs costs;  // measured_costs()
  int64_t steps = 0;
  // Mean seconds of a step, from the begin of the first computation of any rank to the end of the
  // last.
  double measured = 0;
  double simulated = 0;     // `measured`, but in a simulation of the schedule with `costs`
  double bubble_share = 0;  // in the simulation: the part of the ranks' time without computation
  double uncertainty = 0;   // largest ClockOffset::uncertainty of a rank, in seconds
};

// Makes the events of the measured and of the simulated timeline. Times are converted to the clock
// of rank 0 and counted from the first computation. Each rank has a row "measured" and a row
// "simulated". Each simulated step begins when the first rank began the measured step.
RunTimelineResult make_timeline(std::vector<RankTimes> ranks,
                                const parallel::pipeline::Schedule& schedule);

// Records the steps of an engine from construction to finish().
class RunTimeline {
 public:
  // `engine` must outlive this.
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

// Writes timeline.json into `directory` and returns a summary for people. ranks: result of
// RunTimeline::finish(). Throws IoError.
std::string write_timeline(std::vector<RankTimes> ranks, Engine& engine,
                           const std::filesystem::path& directory);

}  // namespace colossal
