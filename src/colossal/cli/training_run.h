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
  std::vector<std::string> words;  // words of the command, e.g. "tune", "dpo"
  RunArguments arguments;
  GivenConfig given;
  comm::Settings settings = {};  // settings besides the config that must be equal on all ranks
  MakeTask make_task;
  std::function<Job(const Job&)> fit_memory = plan::fit_memory;  // see TrainingHooks
  // What computes beside the passes of a job's updates, with as many threads and with groups of its
  // own, and the setting that turns it off, for messages; empty: nothing does.
  std::function<std::string(const Job&)> beside_updates = [](const Job&) { return ""; };
};

// Reads the run's configuration. Called once per rank.
using ReadRun = std::function<TrainingRun(const RunArguments&)>;

// Runs the job. Returns the exit code.
int run_training(const RunArguments& arguments, const ReadRun& read);

}  // namespace colossal::cli
