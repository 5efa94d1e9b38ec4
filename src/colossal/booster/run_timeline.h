// Writes one file of what each rank's stages did when, in some steps: measured and simulated.
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

// The times that a rank has recorded.
struct RankTimes {
  int pipeline_rank = 0;  // along pp
  std::vector<PassedBarrier> barriers;
  std::vector<TimedAction> actions;  // in the order of their ends
};

// Returns how long each stage's computations took, in seconds, on average over ranks and steps. If
// the schedule does not split backward passes, a whole one counts as the input's.
parallel::pipeline::Costs measured_costs(std::span<const RankTimes> ranks, int num_stages);

// Returns a better cut of the model's blocks, by what stages took with the present one. The cost of
// a block is that in the stages between the ends, or, if there are none, in the first. Empty if the
// dearest stage would not get cheaper.
std::vector<int> better_cut(const parallel::pipeline::Costs& measured,
                            const std::vector<int64_t>& stage_blocks);

struct RunTimelineResult {
  std::vector<report::TraceEvent> events;
  parallel::pipeline::Costs costs;  // measured_costs()
  int64_t steps = 0;
  double measured = 0;      // seconds from the first computation of a step to the last, on average
  double simulated = 0;     // the same, of `schedule` at measured_costs()
  double bubble_share = 0;  // of the simulation
  double uncertainty = 0;   // seconds by which clocks of two hosts may still differ
};

// Puts all ranks on the clock of rank 0, from the first action on. Each rank has a row "measured"
// and a row "simulated". A simulated step begins when the first rank began it.
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

// Writes timeline.json into `directory`. Returns a summary for people. Throws IoError.
std::string write_timeline(std::vector<RankTimes> ranks, Engine& engine,
                           const std::filesystem::path& directory);

}  // namespace colossal
