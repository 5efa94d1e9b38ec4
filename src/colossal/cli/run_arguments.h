// The arguments of `train`, `tune` and `plan`: a run.toml, flags that override its keys, and the
// number of ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "colossal/cluster/restart_policy.h"
#include "colossal/run/given_run.h"

namespace colossal::cli {

// The arguments as given.
struct RunArguments : KeySources {
  std::optional<int> ranks;                      // --ranks; nullopt: not given
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

}  // namespace colossal::cli
