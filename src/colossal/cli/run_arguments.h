// The arguments of `train` and `plan`: a run.toml, flags that override its keys, and the number of
// ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "colossal/booster/job.h"

namespace colossal::cli {

struct RunArguments {
  std::string file;
  std::optional<int> ranks;
  std::vector<std::string> flags;  // --section.key=value

  // Returns the ranks given, or 1. Throws ConfigError for less than 1 or more than a million.
  int num_ranks() const;
};

// Adds the argument run.toml, and the option --ranks with the given help text. Keys of run.toml are
// accepted as flags and described in the help.
void add_run_arguments(CLI::App& command, RunArguments& arguments, const std::string& ranks_help);

struct GivenConfig {
  RunConfig config;
  std::set<std::string> keys;  // keys set by the file or a flag
};

// Reads the file and applies the flags. Throws ConfigError.
GivenConfig read_config(const RunArguments& arguments);

// Whether the memory of this host bounds what its ranks may take if no memory budget is configured.
enum class HostMemory { is_limit, not_a_limit };

// Resolves the job for `ranks` ranks, of which `local_ranks` are on this machine. Throws
// ConfigError.
Job resolve(const GivenConfig& given, int ranks, int local_ranks,
            HostMemory memory = HostMemory::is_limit);

}  // namespace colossal::cli
