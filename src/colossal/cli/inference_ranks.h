// The ranks over which `generate`, `serve` and `evaluate` partition a model. The first rank is the
// process that the user started; it has the terminal or the server. With --ranks, the first rank
// starts the other ranks as child processes, which run the same command line. A launcher (srun,
// mpirun, torchrun, colossal run) starts all ranks itself.
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

// Starts, connects and ends the ranks.
class InferenceRanks {
 public:
  // ranks: the value of --ranks; nullopt: not given. Construct before the process has other
  // threads. Throws ConfigError if `ranks` is out of range, or if a launcher has started a
  // different number of ranks.
  explicit InferenceRanks(const std::optional<int>& ranks);

  // Returns the number of all ranks.
  int size() const { return launch_ ? launch_->rendezvous.size : num_ranks_; }
  // Returns the number of ranks on this host.
  int local_size() const { return launch_ ? launch_->local_size : num_ranks_; }
  // Returns true on rank 0.
  bool is_first() const { return !launch_ || launch_->rendezvous.rank == 0; }
  // Returns true if the other ranks can be restarted: they are child processes of this process.
  bool can_restart_ranks() const { return !launch_ && num_ranks_ > 1; }

  // Starts the other ranks (unless a launcher did) and connects all ranks. settings: must be equal
  // on all ranks. May be called again after disconnect(), if can_restart_ranks(). The result is
  // valid until disconnect(). Throws ConfigError, CommError.
  comm::World& connect(const std::string& backend, std::chrono::milliseconds timeout,
                       const comm::Settings& settings);
  // Ends the child ranks and destroys the world, which must no longer be in use.
  void disconnect();

  // Calls run() and returns exit code 0. If run() throws:
  // - If a child rank has failed and the error is not a ConfigError: throws CommError with the
  //   error of the child rank.
  // - Otherwise aborts the world, so that the other ranks end, too. If the launcher takes error
  //   reports (colossal run), sends it the error and returns an exit code; else rethrows the error.
  int guarded(const std::function<void()>& run);
  // Waits up to half a second for a child rank to fail, and returns its error; nullopt if none
  // fails.
  std::optional<std::string> child_rank_failure();

 private:
  std::optional<cluster::LaunchEnvironment> launch_;  // nullopt: no launcher
  int num_ranks_ = 1;                                 // number of ranks; not used with a launcher
  // Kills the child ranks if this process is killed.
  std::optional<cluster::OrphanGuard> guard_;
  std::vector<cluster::RankProcess> others_;  // the child ranks
  std::unique_ptr<comm::World> world_;
};

}  // namespace colossal::cli
