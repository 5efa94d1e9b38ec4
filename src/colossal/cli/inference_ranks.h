// The ranks on which `generate` and `serve` hold a model. The first rank is the process that the
// user started; it has the terminal or the server. With --ranks, the first rank starts the other
// ranks as child processes. A launcher (srun, mpirun, torchrun, colossal run) starts all ranks
// itself.
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
  // Construct before the process has other threads. ranks: the value of --ranks. Throws ConfigError
  // if it is out of range, or if a launcher started a different number of ranks.
  explicit InferenceRanks(const std::optional<int>& ranks);

  int size() const { return launch_ ? launch_->rendezvous.size : num_ranks_; }
  int local_size() const { return launch_ ? launch_->local_size : num_ranks_; }
  bool is_first() const { return !launch_ || launch_->rendezvous.rank == 0; }
  // Whether the other ranks can be restarted, because they are child processes of this one.
  bool can_restart_ranks() const { return !launch_ && num_ranks_ > 1; }

  // Starts the other ranks (unless a launcher did) and connects all ranks. `settings` must be equal
  // on all ranks. May be called again after disconnect(), if can_restart_ranks(). Throws
  // ConfigError, CommError.
  comm::World& connect(const std::string& backend, std::chrono::milliseconds timeout,
                       const comm::Settings& settings);
  // Ends the child ranks and destroys the world, which must no longer be in use.
  void disconnect();

  // Calls run() and returns exit code 0. If run() throws and a child rank has failed, throws
  // CommError with that rank's error. If run() throws otherwise, aborts the world, so that the
  // other ranks end, too; then, if a launcher takes error reports, sends it the error and returns
  // an exit code, else rethrows.
  int guarded(const std::function<void()>& run);
  // Waits up to half a second for a child rank to fail, and returns its error; nullopt if none
  // does.
  std::optional<std::string> child_rank_failure();

 private:
  std::optional<cluster::LaunchEnvironment> launch_;
  int num_ranks_ = 1;
  std::optional<cluster::OrphanGuard> guard_;  // kills child ranks if this process is killed
  std::vector<cluster::RankProcess> others_;
  std::unique_ptr<comm::World> world_;
};

}  // namespace colossal::cli
