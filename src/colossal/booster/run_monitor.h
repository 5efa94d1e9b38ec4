// Writes the output of a run for people: the progress line, metrics.jsonl, TensorBoard events, and
// report.html.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/base/progress.h"
#include "colossal/booster/engine.h"
#include "colossal/booster/job.h"
#include "colossal/booster/metrics.h"
#include "colossal/booster/profiler.h"
#include "colossal/booster/routing_file.h"
#include "colossal/booster/run_timeline.h"
#include "colossal/booster/step_memory.h"

namespace colossal {

// Returns how many numbers of 8 bytes each rank sends to all other ranks after a step: memory in
// total and by kind, bytes by tier, and bytes sent by axis. Unused tiers are included.
int64_t num_rank_figures(const ParallelContext& context);

class RunMonitor {
 public:
  // The constructor and all functions are collective over all ranks; only rank 0 writes.
  // shown_metrics: the task's metrics for the progress line. All references must outlive this.
  RunMonitor(const Job& job, const ParallelContext& context, Engine& engine,
             std::vector<std::string> shown_metrics, StepMemory& memory);

  void start(int64_t steps_done);  // before the first step of this process
  void begin_step();
  // validation_loss: set if the model was evaluated after this step.
  void end_step(const StepResult& result, std::optional<double> validation_loss);
  // Writes all metrics so far, so that no checkpoint is ahead of the metrics.
  void prepare_checkpoint();
  // Writes the last metrics and report.html. end_step() writes report.html, too, at intervals.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  void flush();  // waits for the figures of the pending step, and writes its metrics
  void measure_gemm_rate();
  void exchange();  // begins to gather the figures of all ranks
  void profile();
  void end_profile(int64_t steps);
  std::vector<RankTimes> gather_timeline();
  void keep_report();
  void count_rows(const RowsOfExperts& of_step);
  void keep_routing();
  int64_t device_peak_bytes() const;  // 0 on a CPU
  // Write this rank's figures of tiers from `figure` on, and take those of a rank into pending_.
  // Return the place after them.
  int64_t* pack_tier_metrics(int64_t* figure);
  const int64_t* unpack_tier_metrics(const int64_t* figure);
  void show(const report::StepMetrics& metrics);
  std::map<std::string, int64_t> sent_so_far() const;

  const Job& job_;
  const ParallelContext& context_;
  Engine& engine_;
  std::vector<std::string> shown_metrics_;
  StepMemory& memory_;
  bool writes_ = false;  // rank 0
  // Rate of matrix products in the compute dtype, in FLOP/s, of all ranks together. Measured at the
  // start; raised if a step achieves more, because the machine may have been busy then.
  double gemm_flops_ = 0;
  int64_t steps_begun_ = 0;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<RunTimeline> timeline_;  // exists while profiler_ exists
  Clock::time_point start_;
  Clock::time_point next_report_;
  bool report_failed_ = false;   // set once, so that a failure is logged only once
  bool routing_failed_ = false;  // set once, so that a failure is logged only once
  Clock::time_point step_start_;
  std::map<std::string, int64_t> sent_before_;  // bytes by axis, until the end of the last step
  memory::TierPools::Traffic moved_before_;     // until the end of the last step
  std::optional<report::StepMetrics> pending_;  // metrics of the last step, not written yet
  at::Tensor figures_;                          // [ranks, num_rank_figures()]
  comm::Work figures_gathered_;
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<ProgressLine> progress_;
  RowsOfExperts expert_rows_;  // summed over the steps of this process
  int64_t steps_of_expert_rows_ = 0;
};

}  // namespace colossal
