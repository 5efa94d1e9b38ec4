// A validated run, before anything is allocated. Settings that cannot work have been refused, and
// settings left to the program are resolved, except those that need a dry run or all ranks.
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
  int64_t share = 0;        // sequences of each replica in a step
  int64_t micro_batch = 0;  // sequences in a forward pass of a replica
  int64_t num_micro_batches() const { return (share + micro_batch - 1) / micro_batch; }
  // "auto" is resolved for this machine. train() replaces it on all ranks by the choice of rank 0,
  // or of the checkpoint that the run resumes from.
  Precision precision;
  memory::Recompute recompute;
  memory::Tiers tiers;
  bool weights_are_transient() const {
    return strategy.zero == 3 || !tiers.parameters.all_on_device();
  }
  // True if memory.recompute = "auto": plan/fit_memory.h decides, and sets recompute_reason to a
  // text with the decision, its saving and its cost.
  bool recompute_undecided = false;
  std::string recompute_reason;
  // The kinds with memory.offload_* = "auto": plan/fit_memory.h decides, and sets tiers_reason.
  std::vector<memory::MemoryKind> undecided_tiers;
  std::string tiers_reason;
  // Limits for a rank's tensors in bytes: for their peak on the device, for what is stored on the
  // host, and for the sum of both. memory_budget is set if the device is a CPU and device_budget or
  // host_budget was not given. 0: no limit.
  int64_t device_budget = 0, host_budget = 0, memory_budget = 0;
  int threads = 1;                    // per rank
  std::set<std::string> given_keys;   // the keys that the user set, for the report
  std::vector<std::string> warnings;  // for people, such as settings that have no effect
};

struct Machine {
  int ranks = 1;                   // in the job
  int local_ranks = 1;             // on this host
  int cores = 1;                   // of this host
  int max_threads = INT_MAX;       // limit for a rank, if train.threads is not set
  int64_t memory_bytes = 0;        // memory of this host for the tensors of its ranks; 0: no limit
  bool bf16_instructions = false;  // of the device that computes, CPU or GPU
};

// Makes a job from a configuration. given_keys: the keys that the user has set, if known. Throws
// ConfigError if settings contradict each other; the message names them and the nearest settings
// that work.
Job resolve_job(const RunConfig& config, const Machine& machine,
                const std::set<std::string>& given_keys = {});

// Returns the configuration of the job's engine, without EngineConfig::order and ::metrics.
EngineConfig engine_config(const Job& job);
// Returns how to construct the job's model for a dry run.
ModelSource source_of(const Job& job);

}  // namespace colossal
