// Describes a run as text for logs, and writes its report page, report.html. RunMonitor and
// `colossal plan` use these functions.
#pragma once

#include <string>
#include <vector>

#include "colossal/engine/engine.h"
#include "colossal/job/job.h"
#include "colossal/job/routing_file.h"
#include "colossal/report/chart.h"
#include "colossal/report/run_report.h"

namespace colossal {

// Returns the layout as text: "pp 2 (1f1b, layers 2 + 2, 2 micro-batches) x dp 2 x tp 4 (tokens
// shared) | ZeRO 1 | recompute full | 16 sequences of 256 tokens a step, 4 a forward".
std::string describe_layout(const Job& job);
// Returns "none", "selective", "3 of 12 layers", "selective and 3 of 12 layers", or "full". layers:
// number of the model's layers.
std::string describe_recompute(const memory::Recompute& recompute, int64_t layers);
// Returns what a row of a batch is: "sequences" or "images".
const char* name_of_samples(const Job& job);
// Returns the dtypes as text: "compute bf16, masters fp32, gradients bf16".
std::string describe_precision(const Precision& precision);

// Returns a few lines to log before the first step: model, layout, precision, this rank's memory of
// weights, gradients and optimizer state, and gemm_flops. gemm_flops: measured rate of matrix
// products of all ranks together, in FLOP/s.
std::string describe_run(const Job& job, const ParallelContext& context, const Engine& engine,
                         double gemm_flops);

// What write_report() shows besides the metrics.
struct ReportedRun {
  const Job& job;
  const ParallelContext& context;
  double gemm_flops = 0;  // measured rate of matrix products of all ranks together, in FLOP/s
  // This rank's memory over the time of the second step, one series for each kind of tensor
  // (StepMemory::second_step()); may be empty.
  const std::vector<report::ChartSeries>& step_memory;
  const RowsOfExperts& expert_rows;  // rows routed to each expert; empty without experts
  const std::vector<report::TextSample>& samples;  // of the last evaluation
  const std::vector<report::Picture>& pictures;    // likewise
  int64_t samples_step = 0;                        // the step after which they were written
};

// Writes report.html into the folder log.directory of the job, which must be set, with charts of
// the metrics in metrics.jsonl of that folder. Not collective: rank 0 calls this. Throws IoError.
void write_report(const ReportedRun& run);

}  // namespace colossal
