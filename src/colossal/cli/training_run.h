// Runs a training job for `train` and `tune`: on ranks of this machine, or as one rank of a
// launcher.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/cli/run_arguments.h"
#include "colossal/run/given_run.h"

namespace colossal::cli {

// A run as the subcommand has read it.
struct TrainingRun : GivenRun {
  std::vector<std::string> words;  // the subcommand, such as {"tune", "dpo"}
  // The arguments from which the run was read. If run_training() starts other ranks, their command
  // line is `words`, arguments.file and arguments.flags.
  RunArguments arguments;
};

// Reads the run's configuration. Called once in each process of the run. Throws ConfigError.
using ReadRun = std::function<TrainingRun(const RunArguments&)>;

// Runs the job and returns the exit code (ExitCode). If a launcher started this process, runs one
// rank. Any Error, also of the configuration, is then sent to the launcher or logged, not thrown.
// Without a launcher, runs all ranks: a single rank in this process, several each in a child
// process. Throws Error in this case if the configuration is wrong or the single rank fails; the
// failure of a child process only sets the exit code. Call before the process has other threads.
int run_training(const RunArguments& arguments, const ReadRun& read);

}  // namespace colossal::cli
