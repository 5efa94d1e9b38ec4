// The ranks on which `generate` and `serve` hold a model. The first one is the process that the
// user started, which has the terminal or the server; with --ranks it starts the others as its
// children. Under a launcher (srun, mpirun, torchrun, colossal run) all are there already.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/launch_environment.h"
#include "colossal/cluster/orphan_guard.h"
#include "colossal/cluster/rank_process.h"
#include "colossal/comm/world.h"

namespace colossal::cli {

class InferenceRanks {
 public:
  // Before the process has other threads. ranks: --ranks. Throws ConfigError where a launcher has
  // started another number.
  explicit InferenceRanks(const std::optional<int>& ranks);

  int size() const { return launch_ ? launch_->rendezvous.size : num_ranks_; }
  int local_size() const { return launch_ ? launch_->local_size : num_ranks_; }
  bool is_first() const { return !launch_ || launch_->rendezvous.rank == 0; }
  // Whether the others can be started once more: they are our children.
  bool can_start_again() const { return !launch_ && num_ranks_ > 1; }

  // Starts the others where that is ours to do, and joins them. All have the same `settings`.
  // Throws ConfigError, CommError.
  comm::World& connect(const std::string& backend, std::chrono::milliseconds timeout,
                       const comm::Settings& settings);
  // Ends the others that are ours, and the world; what uses it is gone.
  void disconnect();

  // run(); the exit code. An error ends the other ranks too. A rank with a launcher of ours tells
  // it; else the error goes on, and is the cause where another rank is lost.
  int guarded(const std::function<void()>& run);
  // Which of the others that are ours has failed, and what it said, if one does within half a
  // second.
  std::optional<std::string> failure_of_others();

 private:
  std::optional<cluster::LaunchEnvironment> launch_;
  int num_ranks_ = 1;
  std::optional<cluster::OrphanGuard> guard_;  // of others
  std::vector<cluster::RankProcess> others_;
  std::unique_ptr<comm::World> world_;
};

}  // namespace colossal::cli
