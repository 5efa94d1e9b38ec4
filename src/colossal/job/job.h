// A Job is the validated configuration of a training run, made from a run.toml by resolve_job()
// before anything is allocated. Settings that cannot work have been refused. Settings left to the
// program ("auto", or unset) are resolved, except those that need a dry run or all ranks.
#pragma once

#include <climits>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "colossal/job/run_config.h"
#include "colossal/memory/activations.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/families.h"

namespace colossal {

struct Job {
  RunConfig config;  // as the user gave it; the fields below have the resolved values
  Strategy strategy;
  models::ModelSpecification model;
  // "bytes", or the path of a tokenizer.json or its folder; empty: the model reads images.
  std::string tokenizer;
  int64_t sequence_length = 0;  // tokens
  int64_t share = 0;            // sequences of each replica in a step
  int64_t micro_batch = 0;      // sequences in a forward pass of a replica
  int64_t num_micro_batches() const { return (share + micro_batch - 1) / micro_batch; }
  // precision.* with "auto" resolved for this machine. If precision.compute is "auto",
  // decide_precision() replaces it on all ranks by that of rank 0, or by that of the checkpoint
  // from which the run resumes; precision.gradients = "auto" follows it and the layout.
  Precision precision;
  memory::Recompute recompute;
  memory::Tiers tiers;
  // Returns whether whole weights are on the device only around their uses, because they are
  // sharded (ZeRO stage 3) or offloaded.
  bool weights_are_transient() const {
    return strategy.zero == 3 || !tiers.parameters.all_on_device();
  }
  // True if memory.recompute = "auto". plan::fit_memory() (plan/fit_memory.h) then sets
  // `recompute`, and sets recompute_reason to a text for people with the choice, its saving and its
  // cost.
  bool recompute_undecided = false;
  std::string recompute_reason;
  // Kinds of tensors with memory.offload_* = "auto". plan::fit_memory() then sets their shares in
  // `tiers`, and sets tiers_reason to a text for people.
  std::vector<memory::MemoryKind> undecided_tiers;
  std::string tiers_reason;
  // Limits in bytes for the tensors of a rank; 0: no limit.
  //   device_budget  limits the peak on the device: memory.device_budget; unset: memory_budget
  //   host_budget    limits the peak of what is stored on the host: memory.host_budget; unset: 0
  //   memory_budget  limits the peak of device and host together. Set only if the device is a CPU,
  //                  because then both are this host's memory. It is an equal share of
  //                  Machine::memory_bytes for each rank of this host, less the memory of the
  //                  process itself. 0 if Machine::memory_bytes is 0 (always with GPUs), or if the
  //                  user has set both other limits
  int64_t device_budget = 0, host_budget = 0, memory_budget = 0;
  int threads = 1;                   // threads per rank
  std::set<std::string> given_keys;  // full names of the keys that the user has set
  // The subcommand, such as "tune dpo", and the values of all its keys as they were read, including
  // the keys of the task that RunConfig does not have. For records of the run; may be empty.
  std::string command;
  std::vector<ConfigSchema::Value> read_values;
  std::string run;                    // id of the run; set by decide_log_folder()
  std::vector<std::string> warnings;  // lines to log at the start: settings that have no effect
};

// The ranks and hosts of a job.
struct Machine {
  int ranks = 1;              // number of ranks in the job
  int local_ranks = 1;        // number of ranks on this host
  int cores = 1;              // number of cores of this host
  int max_threads = INT_MAX;  // most threads of a rank, if train.threads is not set
  // This host's memory for all processes of its ranks; 0: no limit. It is 0 with GPUs, and for
  // `colossal plan`, whose job may run on another host.
  int64_t memory_bytes = 0;
  bool bf16_instructions = false;  // whether the device that computes, CPU or GPU, has them
};

// Makes a job from a configuration. given_keys: full names of the keys that the user has set, such
// as "parallel.tp"; empty if unknown. Some settings that cannot take effect are refused, or warned
// about, only if their keys are in given_keys; otherwise they are silently left without effect.
// Throws ConfigError if settings contradict each other, the model or the machine. The message names
// them; if the layout is the cause, also the nearest layouts that work.
Job resolve_job(const RunConfig& config, const Machine& machine,
                const std::set<std::string>& given_keys = {});
// Likewise, but the message of the ConfigError names no layouts that work. Finding them takes as
// long as resolving hundreds of jobs.
Job resolve_job_as_given(const RunConfig& config, const Machine& machine,
                         const std::set<std::string>& given_keys);

// Returns the lower of two limits in bytes, of which 0 means no limit.
int64_t stricter_limit(int64_t a, int64_t b);

}  // namespace colossal
