// A run as its user gives it: the keys of a run.toml, and what it trains. Read by the commands
// `train`, `tune` and `plan` and by the Python package.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "colossal/base/config_schema.h"
#include "colossal/comm/rendezvous.h"
#include "colossal/job/job.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/training/training_task.h"
#include "colossal/tune/tuning_method.h"

namespace colossal {

// Where the keys of a run come from.
struct KeySources {
  std::string file;                // path of a run.toml; empty: none
  std::vector<std::string> flags;  // --section.key=value; each overrides the file
};

// The configuration of a run.
struct GivenConfig {
  RunConfig config;
  std::set<std::string> keys;               // keys that the file or a flag sets
  std::string command = "train";            // Job::command
  std::vector<ConfigSchema::Value> values;  // Job::read_values
};

// Reads the keys of `train` and `plan`. (`tune` has more; see read_tuning().) Throws ConfigError
// naming an invalid key or value, or an unreadable file.
GivenConfig read_config(const KeySources& sources);

// Whether the memory of this host limits what its ranks may use (Machine::memory_bytes).
//   is_limit     yes for ranks on the CPU, unless memory.device_budget and memory.host_budget are
//                both set; no for ranks on GPUs
//   not_a_limit  no: for the plan of a job that may run on another machine
enum class HostMemory { is_limit, not_a_limit };

// Returns the ranks and hosts of a job of `ranks` ranks, of which `local_ranks` are on this host.
Machine machine_of(const RunConfig& config, int ranks, int local_ranks,
                   HostMemory memory = HostMemory::is_limit);
// Returns the job for `ranks` ranks, of which `local_ranks` are on this host. Throws ConfigError if
// the configuration does not fit the ranks or the machine.
Job resolve(const GivenConfig& given, int ranks, int local_ranks,
            HostMemory memory = HostMemory::is_limit);

// A configuration and what it trains.
struct GivenRun {
  GivenConfig given;
  // Settings that must be equal on all ranks, in addition to those of the config.
  comm::Settings settings = {};
  MakeTask make_task;  // makes what a rank trains: pretraining or a tuning method
  // Returns the job with memory.recompute = "auto" and memory.offload_* = "auto" decided so that
  // the job fits its memory budgets (plan::decide()).
  std::function<Job(const Job&)> fit_memory = plan::fit_memory;
  // Returns the job whose dry run costs as much as a step of the given job, for parallel.strategy =
  // "auto".
  std::function<Job(const Job&)> dry_run_job = [](const Job& job) { return job; };
  // Returns a phrase for error messages that names work which the job runs at the same time as the
  // optimizer's updates, such as sampling, and the setting that turns it off; "" if there is no
  // such work. A run with such work needs twice as many sockets between ranks, and twice
  // train.threads threads; it is refused if the machine does not allow so many.
  std::function<std::string(const Job&)> concurrent_work = [](const Job&) { return ""; };
};

// Reads a run of `train`. Throws as read_config().
GivenRun read_training(const KeySources& sources);

// The keys of run.toml with the defaults of a tuning method, and the method's own keys.
struct TuneSchema {
  explicit TuneSchema(const tune::TuningMethod& method);
  TuneSchema(const TuneSchema&) = delete;

  RunConfig run;
  tune::TuneConfig config;
  ConfigSchema schema;
};

// Reads a run of `tune METHOD`. Throws as read_config(), and if a key does not fit the method.
GivenRun read_tuning(const tune::TuningMethod& method, const KeySources& sources);

}  // namespace colossal
