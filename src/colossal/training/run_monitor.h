// Measures the steps of a training run, and writes what a user sees of them: the progress line,
// metrics.jsonl, TensorBoard events, report.html, routing.json (how many rows each expert got) and
// profiles. The training loop (trainer.cpp) calls RunMonitor around each step.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/progress.h"
#include "colossal/engine/engine.h"
#include "colossal/job/job.h"
#include "colossal/job/routing_file.h"
#include "colossal/report/run_report.h"
#include "colossal/training/metrics.h"
#include "colossal/training/profiler.h"
#include "colossal/training/run_timeline.h"
#include "colossal/training/step_memory.h"

namespace colossal {

// Returns the number of figures, of 8 bytes each, that each rank sends to all other ranks after a
// step: memory in total and by kind, bytes stored in each tier and moved to and from it, and bytes
// sent along each axis. Figures of unused tiers are included.
int64_t num_rank_figures(const ParallelContext& context);

// The axis of calls before the mesh exists, such as those that agree on a layout. Metrics do not
// count them.
inline constexpr const char* kSetUpAxis = "set-up";

// Call start() once; begin_step() before and end_step() after each step; finish() at the end. All
// functions are collective over all ranks. Each rank writes its profile; rank 0 writes all other
// files and the progress line.
class RunMonitor {
 public:
  // shown_metrics: names of the task's metrics that the progress line shows. memory: the monitor
  // calls its begin_step() and end_step(). All references must outlive this.
  RunMonitor(const Job& job, const ParallelContext& context, Engine& engine,
             std::vector<std::string> shown_metrics, StepMemory& memory);

  // Measures the rate of matrix products, and logs a description of the run. If steps are left,
  // opens the logs and writes run.toml (used_settings.h); otherwise nothing is written, so that the
  // logs of a run that is done stay as they are. steps_done: updates before this process. Throws
  // IoError on rank 0 if metrics.jsonl cannot be opened.
  void start(int64_t steps_done);
  // Starts the step's clock. Begins the profile after the first kStepsBeforeProfile (profiler.h)
  // steps of this process, and ends it log.profile steps later; if log.profile is 0, there is none.
  void begin_step();
  // Ends the step's clock, and shows the progress of an evaluation after the step, of `total`
  // sequences. Call evaluated() with the number of sequences done, and end_evaluation() before
  // end_step().
  void begin_evaluation(int64_t total);
  void evaluated(int64_t done);
  void end_evaluation();
  // Adds what the model wrote to samples.jsonl and to the report. On rank 0.
  void add_samples(int64_t step, const std::vector<report::TextSample>& samples);
  // Adds pictures to the report. On rank 0.
  void add_pictures(int64_t step, std::vector<report::Picture> pictures) {
    pictures_ = std::move(pictures);
    samples_step_ = step;
  }
  // Shows the step's result, and writes report.html at intervals. The step's line in metrics.jsonl
  // is written by the next call of end_step(), prepare_checkpoint() or finish(), when the figures
  // of all ranks have arrived. validation_loss: set if the model was evaluated after this step.
  void end_step(const StepResult& result, std::optional<double> validation_loss);
  // Writes all metrics so far, and routing.json. Called before each save, so that no checkpoint is
  // of a later step than the metrics.
  void prepare_checkpoint();
  // Writes the last metrics, routing.json, the profile if it has not ended, and report.html. Files
  // that this and the other functions cannot write only cause a warning. failed: whether the run
  // ends with an error.
  void finish(bool failed = false);
  // Writes the last metrics, without the figures of other ranks, and report.html. Called instead of
  // finish() if the run fails. Not collective.
  void abandon();

 private:
  bool reads_images() const { return job_.model.transformer.patches.has_value(); }
  using Clock = std::chrono::steady_clock;

  void flush();  // waits for the figures of the pending step, and writes its metrics
  void measure_gemm_rate();
  void open_logs();
  void exchange();  // begins to gather the figures of all ranks
  void profile();   // begins or ends the profile, if it is time
  void end_profile(int64_t steps);
  std::vector<RankTimes> gather_timeline();
  void keep_report();   // writes report.html, if it is time
  void write_report();  // writes report.html; logs a warning the first time it fails
  void end_clock();     // of the step, if it has not ended
  void count_rows(const RowsOfExperts& of_step);
  void keep_routing();  // writes routing.json
  // pack_tier_metrics() writes this rank's figures of tiers from *figure on. unpack_tier_metrics()
  // reads such figures of one rank, and raises the maxima over ranks in pending_. Both return the
  // pointer after the last figure.
  int64_t* pack_tier_metrics(int64_t* figure);
  const int64_t* unpack_tier_metrics(const int64_t* figure);
  void show(const report::StepMetrics& metrics);       // updates the progress line
  std::map<std::string, int64_t> sent_so_far() const;  // bytes by axis, since the process began

  const Job& job_;
  const ParallelContext& context_;
  Engine& engine_;
  std::vector<std::string> shown_metrics_;
  StepMemory& memory_;
  bool writes_ = false;  // rank 0
  // Rate of matrix products in the compute dtype, in FLOP/s, of all ranks together. Measured by
  // start().
  double gemm_flops_ = 0;
  int64_t steps_begun_ = 0;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<RunTimeline> timeline_;  // exists while profiler_ exists
  Clock::time_point start_;
  Clock::time_point next_report_;
  bool report_failed_ = false;   // set once, so that a failure is logged only once
  bool routing_failed_ = false;  // set once, so that a failure is logged only once
  Clock::time_point step_start_, evaluation_start_;
  std::optional<double> step_seconds_, evaluation_seconds_;  // of this step, when they are over
  std::unique_ptr<ProgressLine> evaluation_progress_;
  std::vector<report::TextSample> samples_;  // of the last evaluation
  std::vector<report::Picture> pictures_;    // likewise
  int64_t samples_step_ = 0;
  int64_t fallbacks_before_ = 0;                // ops::num_fallbacks() at the end of the last step
  std::map<std::string, int64_t> sent_before_;  // sent_so_far() at the end of the last step
  memory::TierPools::Traffic moved_before_;     // tier_traffic() at the end of the last step
  std::optional<report::StepMetrics> pending_;  // metrics of the last step, not written yet
  comm::Group figures_group_;                   // all ranks, for tensors in host memory
  at::Tensor figures_;                          // [ranks, num_rank_figures()]
  comm::Work figures_gathered_;
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<ProgressLine> progress_;
  RowsOfExperts expert_rows_;  // summed over the steps of this process
  int64_t steps_of_expert_rows_ = 0;
};

}  // namespace colossal
