// Writes what people see of a run: the progress line, metrics.jsonl, TensorBoard events,
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

// Returns how many numbers each rank sends to all others after a step: memory in all and by kind,
// tiers, used or not, and bytes sent by axis.
int64_t num_rank_figures(const ParallelContext& context);

class RunMonitor {
 public:
  // Collective over all ranks, as all members are; rank 0 writes. `shown_metrics` are the task's
  // metrics that the progress line shows.
  RunMonitor(const Job& job, const ParallelContext& context, Engine& engine,
             std::vector<std::string> shown_metrics, StepMemory& memory);

  void start(int64_t steps_done);
  void begin_step();
  void end_step(const StepResult& result, std::optional<double> validation_loss);
  // Writes what is known so far, so that no checkpoint is ahead of the metrics.
  void prepare_checkpoint();
  void finish();  // writes report.html, as end_step() does now and then

 private:
  using Clock = std::chrono::steady_clock;

  void flush();
  void measure_gemm_rate();
  void exchange();
  void profile();
  void end_profile(int64_t steps);
  std::vector<RankTimes> gather_timeline();
  void keep_report();
  void count_rows(const RowsOfExperts& of_step);
  void keep_routing();
  int64_t device_peak_bytes() const;  // 0 on a CPU
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
  // FLOP/s of all ranks' threads together, in the compute type: as measured at the start, or what a
  // step has reached since, where the machine was busy with something else at that time.
  double gemm_flops_ = 0;
  int64_t steps_begun_ = 0;
  std::unique_ptr<Profiler> profiler_;
  std::unique_ptr<RunTimeline> timeline_;  // beside it
  Clock::time_point start_;
  Clock::time_point next_report_;
  bool report_failed_ = false;   // and has been told
  bool routing_failed_ = false;  // the same
  Clock::time_point step_start_;
  std::map<std::string, int64_t> sent_before_;  // at the end of the step before
  memory::TierPools::Traffic moved_before_;     // the same
  std::optional<report::StepMetrics> pending_;  // of the last step, not yet written
  at::Tensor figures_;                          // [ranks, figures]: memory and bytes of each rank
  comm::Work figures_gathered_;
  std::unique_ptr<MetricsLog> log_;
  std::unique_ptr<ProgressLine> progress_;
  RowsOfExperts expert_rows_;  // of the steps that this run made
  int64_t steps_of_expert_rows_ = 0;
};

}  // namespace colossal
