// Runs a training job for `train` and `tune`: on ranks of this machine, or as one rank of a
// launcher.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/booster/training_task.h"
#include "colossal/cli/run_arguments.h"
#include "colossal/comm/rendezvous.h"
#include "colossal/plan/fit_memory.h"

namespace colossal::cli {

// A run as the subcommand has read it.
struct TrainingRun {
  std::vector<std::string> words;  // the subcommand, such as {"tune", "dpo"}
  // The arguments from which the run was read. run_training() starts other ranks with `words`, the
  // file and the flags.
  RunArguments arguments;
  GivenConfig given;
  // Settings that must be equal on all ranks, in addition to those of the config.
  comm::Settings settings = {};
  MakeTask make_task;  // makes what a rank trains: pretraining or a tuning method
  // See TrainingHooks::fit_memory.
  std::function<Job(const Job&)> fit_memory = plan::fit_memory;
  // Returns a phrase for error messages that names work which the job runs at the same time as the
  // optimizer's updates, such as sampling, and the setting that turns it off; "" if there is no
  // such work. If there is, the run is refused unless the machine allows twice the sockets and the
  // threads of a run without such work.
  std::function<std::string(const Job&)> concurrent_work = [](const Job&) { return ""; };
};

// Reads the run's configuration. Called once in each process of the run. Throws ConfigError.
using ReadRun = std::function<TrainingRun(const RunArguments&)>;

// Runs the job and returns the exit code (ExitCode). If a launcher started this process, runs one
// rank; an error of the rank is sent to the launcher or logged, not thrown. Otherwise runs all
// ranks: in this process if there is only one, else each in a child process. Without a launcher,
// throws Error if the configuration is wrong or the only rank fails. Call before the process has
// other threads.
int run_training(const RunArguments& arguments, const ReadRun& read);

}  // namespace colossal::cli
