// The arguments of `train`, `tune` and `plan`: a run.toml, flags that override its keys, and the
// number of ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "colossal/cluster/restart_policy.h"
#include "colossal/job/job.h"

namespace colossal::cli {

// The arguments as given.
struct RunArguments {
  std::string file;                              // path of the run.toml
  std::optional<int> ranks;                      // --ranks; nullopt: not given
  std::vector<std::string> flags;                // --section.key=value
  std::optional<int> min_ranks;                  // --min-ranks; nullopt: the run is not elastic
  int max_restarts = cluster::kDefaultRestarts;  // --max-restarts

  // Returns `ranks`, or 1 if not given. Throws ConfigError if `ranks` is less than 1 or more than
  // 2^20.
  int num_ranks() const;
};

// Adds the argument run.toml and the option --ranks. ranks_help: help text of --ranks. The command
// then accepts the keys of run.toml as flags, and its help lists the keys. The command's callback
// must store the flags: arguments.flags = command.remaining(). `arguments`, to which the parsed
// values are written, must outlive `command`.
void add_run_arguments(CLI::App& command, RunArguments& arguments, const std::string& ranks_help);

// Adds the options --min-ranks and --max-restarts of elastic runs.
void add_elastic_arguments(CLI::App& command, RunArguments& arguments);

// The configuration of a run.
struct GivenConfig {
  RunConfig config;
  std::set<std::string> keys;               // keys that the file or a flag sets
  std::string command = "train";            // Job::command
  std::vector<ConfigSchema::Value> values;  // Job::read_values
};

// Replaces names of models and adapters in the Hub's cache by their folders (io::find_model()).
void find_models(RunConfig& config);

// Reads the file and applies the flags, for `train` and `plan`. (The file of `tune` has more keys;
// `tune` reads it itself.) Throws ConfigError naming an invalid key or value, or an unreadable
// file.
GivenConfig read_config(const RunArguments& arguments);

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

}  // namespace colossal::cli
