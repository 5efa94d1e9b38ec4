// A run after validation: all that was left open is resolved, all that cannot work is refused, and
// nothing has been allocated yet.
#pragma once

#include <climits>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "colossal/booster/engine.h"
#include "colossal/booster/run_config.h"
#include "colossal/booster/state_shapes.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/families.h"

namespace colossal {

struct Job {
  RunConfig config;
  Strategy strategy;
  models::ModelSpecification model;
  std::string tokenizer;  // "bytes", or the path of a tokenizer.json or its folder
  int64_t sequence_length = 0;
  int64_t share = 0;        // sequences of a step for each replica
  int64_t micro_batch = 0;  // sequences of a forward
  int64_t num_micro_batches() const { return (share + micro_batch - 1) / micro_batch; }
  Precision precision;  // as resolved on rank 0
  memory::Recompute recompute;
  memory::Tiers tiers;
  bool weights_are_transient() const {
    return strategy.zero == 3 || !tiers.parameters.all_on_device();
  }
  bool recompute_open = false;                 // "auto", still to be decided: see plan/fit_memory.h
  std::string recompute_reason;                // what was decided, and what it saves and costs
  std::vector<memory::MemoryKind> tiers_open;  // offload_* = "auto", still to be decided
  std::string tiers_reason;
  // The most bytes of a rank's tensors: on the device at their peak, at rest on the host, and both
  // together. The last is set if the device is a CPU and one of the others was not given. 0: no
  // limit.
  int64_t device_budget = 0, host_budget = 0, memory_budget = 0;
  int threads = 1;                    // of each rank
  std::set<std::string> given_keys;   // what the user set, for the report
  std::vector<std::string> warnings;  // for people: of settings that have no effect
};

struct Machine {
  int ranks = 1;                   // in all
  int local_ranks = 1;             // on this host
  int cores = 1;                   // of this host
  int most_threads = INT_MAX;      // of a rank, unless train.threads says
  int64_t memory_bytes = 0;        // of this host, for the tensors of its ranks; 0: no limit
  bool bf16_instructions = false;  // of what computes: CPU or GPU
};

// Makes a job of a configuration. `given_keys` are the keys that a user has set, if that is known.
// Throws ConfigError naming settings that do not go together and the nearest that do.
Job resolve_job(const RunConfig& config, const Machine& machine,
                const std::set<std::string>& given_keys = {});

EngineConfig engine_config(const Job& job);
ModelSource source_of(const Job& job);

}  // namespace colossal
