// Runs a training job for `train` and `tune`: on ranks of this machine, or as one rank of a
// launcher.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/cli/run_arguments.h"
#include "colossal/comm/rendezvous.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/training/training_task.h"

namespace colossal::cli {

// A run as the subcommand has read it.
struct TrainingRun {
  std::vector<std::string> words;  // the subcommand, such as {"tune", "dpo"}
  // The arguments from which the run was read. If run_training() starts other ranks, their command
  // line is `words`, arguments.file and arguments.flags.
  RunArguments arguments;
  GivenConfig given;  // the configuration, and which of its keys the user has set
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
  // train.threads threads; run_training() refuses it if the machine does not allow so many.
  std::function<std::string(const Job&)> concurrent_work = [](const Job&) { return ""; };
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
