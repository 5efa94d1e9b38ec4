// Records when each rank of a pipeline computed and waited in the profiled steps (log.profile), and
// writes timeline.json, which has this measured timeline beside a simulated timeline. RunMonitor
// uses RunTimeline and write_timeline().
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "colossal/engine/clock_alignment.h"
#include "colossal/engine/engine.h"
#include "colossal/engine/timed_action.h"
#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/report/trace.h"

namespace colossal {

// The recorded times of one rank.
struct RankTimes {
  int pipeline_rank = 0;                // coordinate along pp
  std::vector<PassedBarrier> barriers;  // passed after the steps, to compare the ranks' clocks
  std::vector<TimedAction> actions;     // in the order of their ends
};

// Returns for each stage the mean durations of its computations for a micro-batch, in seconds, over
// all ranks with the stage and all recorded steps. If the schedule does not split backward passes,
// the whole backward pass counts as input_gradient, and weight_gradient is 0.
parallel::pipeline::Costs measured_costs(std::span<const RankTimes> ranks, int num_stages);

// Returns the number of blocks that each stage should have so that the slowest stage takes the
// least time. measured: the durations of the stages. stage_blocks: the number of blocks of each
// stage in that measurement. The duration of a block is estimated as a stage's duration
// (StageCosts::total()) divided by its number of blocks: the mean over the stages between the first
// and the last; if there are none, the value of the first stage. What the first and the last stage
// take beyond their blocks is the time of the embedding and of the head, which stay in these
// stages. Returns {} if the slowest stage would not become at least 3 % faster.
std::vector<int> better_stage_blocks(const parallel::pipeline::Costs& measured,
                                     const std::vector<int64_t>& stage_blocks);

// What make_timeline() returns.
struct RunTimelineResult {
  std::vector<report::TraceEvent> events;  // of both timelines
  parallel::pipeline::Costs costs;         // measured_costs(), in seconds
  int64_t steps = 0;                       // number of recorded steps
  // measured: mean duration of a step in seconds, from the begin of the first computation of any
  // rank to the end of the last computation of any rank. simulated: this duration in a simulation
  // of the schedule with `costs`.
  double measured = 0;
  double simulated = 0;
  double bubble_share = 0;  // in the simulation: fraction of the ranks' time without computation
  double uncertainty = 0;   // largest ClockOffset::uncertainty of a rank, in seconds
};

// Makes the events of the measured and of the simulated timeline. ranks: result of
// RunTimeline::finish(). schedule: the schedule of the recorded steps. Times are converted to the
// clock of rank 0 and counted from the first computation. Each rank has a row "measured" and a row
// "simulated". A simulated step begins when the measured step began, i.e. at the begin of the
// step's first computation on any rank. If no computation was recorded, the result has no
// events, and `steps` is 0.
RunTimelineResult make_timeline(std::vector<RankTimes> ranks,
                                const parallel::pipeline::Schedule& schedule);

// Records the actions of this rank in the training steps of an engine, from construction to
// finish().
class RunTimeline {
 public:
  // `engine` must outlive this.
  explicit RunTimeline(Engine& engine) : engine_(engine) { engine_.record_actions(&actions_); }
  ~RunTimeline() { engine_.record_actions(nullptr); }
  RunTimeline(const RunTimeline&) = delete;
  RunTimeline& operator=(const RunTimeline&) = delete;

  // Ends the recording and returns the times of all ranks, by rank. Collective over all ranks.
  std::vector<RankTimes> finish();

 private:
  Engine& engine_;
  std::vector<TimedAction> actions_;
};

// Writes timeline.json into `directory`, for ui.perfetto.dev or chrome://tracing, and returns a
// summary as text. ranks: result of RunTimeline::finish(). engine: the engine that was recorded.
// Not collective: rank 0 calls this. Throws IoError.
std::string write_timeline(std::vector<RankTimes> ranks, Engine& engine,
                           const std::filesystem::path& directory);

}  // namespace colossal
