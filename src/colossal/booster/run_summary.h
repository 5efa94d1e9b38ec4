// Describes a run as text, and writes its report page.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/engine.h"
#include "colossal/booster/job.h"
#include "colossal/booster/routing_file.h"
#include "colossal/report/chart.h"

namespace colossal {

// "pp 2 (1f1b, layers 2 + 2, 2 micro-batches) x dp 2 x tp 4 (tokens shared) | ZeRO 1 | recompute
// full | 16 sequences of 256 tokens a step, 4 a forward"
std::string describe_layout(const Job& job);
// "none", "selective", "3 of 12 layers", "selective and 3 of 12 layers", "full"
std::string describe_recompute(const memory::Recompute& recompute, int64_t layers);
// "compute bf16, masters fp32, gradients bf16"
std::string describe_precision(const Precision& precision);

// Returns a few lines to log before the first step: model, layout, precision, memory of weights,
// gradients and optimizer state, and gemm_flops: the rate of matrix products of all ranks together,
// in FLOP/s.
std::string describe_run(const Job& job, const ParallelContext& context, const Engine& engine,
                         double gemm_flops);

// Writes report.html into log.directory, from metrics.jsonl there. gemm_flops: as for
// describe_run(). step_memory: StepMemory::second_step(). expert_rows: rows routed to each expert,
// summed over steps; empty for models without experts. Throws IoError.
void write_report(const Job& job, const ParallelContext& context, double gemm_flops,
                  const std::vector<report::ChartSeries>& step_memory,
                  const RowsOfExperts& expert_rows);

}  // namespace colossal
