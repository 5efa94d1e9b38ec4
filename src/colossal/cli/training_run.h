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

struct TrainingRun {
  std::vector<std::string> words;  // the subcommand, e.g. {"tune", "dpo"}
  RunArguments arguments;
  GivenConfig given;
  // Settings that must be equal on all ranks, besides those of the config.
  comm::Settings settings = {};
  MakeTask make_task;
  std::function<Job(const Job&)> fit_memory = plan::fit_memory;  // see TrainingHooks
  // Returns, for messages, the name of what computes while a job's updates run (a sampler) and the
  // setting that turns it off; empty if nothing does. Such work takes as many threads as the
  // updates, and groups of its own.
  std::function<std::string(const Job&)> concurrent_work = [](const Job&) { return ""; };
};

// Reads the run's configuration. Called once in each process of the run.
using ReadRun = std::function<TrainingRun(const RunArguments&)>;

// Runs the job: as one rank if a launcher started this process, else on all ranks. Returns the exit
// code.
int run_training(const RunArguments& arguments, const ReadRun& read);

}  // namespace colossal::cli
