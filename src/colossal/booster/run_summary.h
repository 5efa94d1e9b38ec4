// A run in words and as a page.
#pragma once

#include <string>

#include "colossal/booster/engine.h"
#include "colossal/booster/job.h"

namespace colossal {

// A few lines before the first step: model, layout, precision, memory for states, bytes to come.
std::string describe_run(const Job& job, const ParallelContext& context, const Engine& engine,
                         double gemm_flops);

// LOG_DIR/report.html, from LOG_DIR/metrics.jsonl. Throws IoError.
void write_report(const Job& job, const ParallelContext& context, double gemm_flops);

}  // namespace colossal
