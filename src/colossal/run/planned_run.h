// What a run will cost: for `colossal plan` and the Python package.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/plan/plan.h"
#include "colossal/run/given_run.h"

namespace colossal {

struct PlannedRun {
  Job job;  // with everything decided
  plan::Plan plan;
  std::string text;             // the tables of plan_text.h; of a search, first its layouts
  nlohmann::ordered_json json;  // plan::to_json(); of a search, with it as "search"
};

// Plans a run of `train` on `ranks` ranks in total. On machines of a cluster (parallel.cluster) it
// predicts times, too; without one, only budgets in the configuration limit memory. With
// parallel.strategy = "auto" it searches the layout. classifies: plans `tune classify` of a model
// that reads images. Logs the job's warnings. Throws ConfigError.
PlannedRun plan_run(GivenConfig given, int ranks, bool classifies = false);

}  // namespace colossal
