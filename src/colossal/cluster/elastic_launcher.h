// Runs an elastic job on this machine: its ranks start again after a failure, and the user can
// change their number while the job runs. Each time, the ranks stop after a step and save, and the
// new ranks resume from the checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/local_launcher.h"
#include "colossal/cluster/restart_policy.h"

namespace colossal::cluster {

struct ElasticOptions {
  int min_ranks = 1;                    // a failing job is not started with fewer ranks than this
  int max_restarts = kDefaultRestarts;  // after failures without progress (RestartPolicy)
  // Returns the arguments with which the program runs on this number of ranks. Throws ConfigError
  // if it cannot run on them. Empty: always LaunchOptions::arguments.
  std::function<std::vector<std::string>(int num_ranks)> arguments = {};
  // Arguments in addition to these on every start but the first.
  std::vector<std::string> restart_arguments = {};
  // Returns a number that grows when the job makes progress, such as the last step that was saved.
  // memory_folder: LaunchEnvironment::memory_folder of the ranks. Empty: ranks that ran for ten
  // minutes have made progress.
  std::function<int64_t(const std::string& memory_folder)> progress = {};
  // Returns the number of ranks that the user has asked for since the last call, if any. Called
  // about five times a second while ranks run. Empty: the user cannot ask.
  std::function<std::optional<int>()> requested = {};
  // Called before the job ends, with whatever exit code, and memory_folder is removed: saves what
  // is only there. Empty: not called.
  std::function<void(const std::string& memory_folder)> before_end = {};
  // Called whenever ranks were started; with an error if a request was refused. Empty: not called.
  std::function<void(int num_ranks, const std::string& error)> report = {};
};

// Like run_local_ranks(), but starts the ranks again in two cases:
//   - A rank has died or hung: first on the same number of ranks; if the job fails again without
//     progress, on the next smaller number that options.arguments accepts.
//   - The user has asked for another number of ranks: when the ranks have saved. If the new ranks
//     refuse the configuration, the job goes back to the number before.
// Returns the exit code of the last start: 0 if the job is done; 75 if the user has stopped it.
// Throws ConfigError if min_ranks is not from 1 to launch.num_ranks or max_restarts is negative.
int run_elastic_ranks(const LaunchOptions& launch, const ElasticOptions& elastic);

// Returns "1 rank", "2 ranks" and so on.
std::string ranks_text(int num_ranks);

}  // namespace colossal::cluster
