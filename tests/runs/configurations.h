// Configurations of runs of small models: families, layouts and tiers by name, for tests that meet
// all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/job/run_config.h"

namespace colossal::test {

// Settings under a name, and how many ranks they need.
struct Named {
  std::string name;
  std::function<void(RunConfig&)> change = [](RunConfig&) {};
  int ranks = 1;
};

// Every axis and mode, alone and some together, on at most 8 ranks.
const std::vector<Named>& layouts();
// Where tensors are stored between uses. NVMe needs memory.nvme_path.
const std::vector<Named>& tiers();
// Every precision.compute.
const std::vector<std::string>& types();
// Every optimizer.
const std::vector<Named>& optimizers();

// A run that trains the small model of a family (small_config()), without data. folder: where its
// config.json is written.
RunConfig small_run(const std::string& family, const std::string& folder);

// Resolves the job for these ranks, all on this host.
Job job_for(const RunConfig& config, int ranks);

}  // namespace colossal::test
