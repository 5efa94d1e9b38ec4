// The ranks over which `generate`, `serve` and `evaluate` partition a model. The first rank is the
// process that the user started; it has the terminal or the server. With --ranks, the first rank
// starts the other ranks as child processes, which run the same command line. It gives them the
// environment variables that `colossal run` would give them, so in a child process this class
// behaves as under a launcher, and the first rank is that launcher. Otherwise, a launcher (srun,
// mpirun, torchrun, colossal run) starts all ranks.
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
  // Returns whether a launcher has started all ranks: they wait for each other in connect(), and an
  // error of one before it ends the others only when they have waited for `timeout`.
  bool is_launched() const { return launch_.has_value(); }
  // Returns whether the other ranks are child processes of this process, so that connect() can
  // start them again.
  bool can_restart_ranks() const { return !launch_ && num_ranks_ > 1; }
  // Returns the id of the process that ends child ranks which outlive this process; nullopt if this
  // process starts no ranks.
  std::optional<pid_t> guard_pid() const {
    return guard_ ? std::optional(guard_->pid()) : std::nullopt;
  }

  // Starts the other ranks, unless a launcher has started them, and connects all ranks. timeout:
  // limit for connecting, and for each later collective call. settings: must be equal on all ranks.
  // May be called again after disconnect(), if can_restart_ranks(). The result is valid until
  // disconnect(). Throws ConfigError if `kind` is not possible for these ranks, or if settings
  // differ; CommError if the ranks do not connect within `timeout`; ConfigError or IoError if a
  // child rank cannot be started.
  comm::World& connect(const comm::WorldKind& kind, std::chrono::milliseconds timeout,
                       const comm::Settings& settings);
  // Kills the child ranks that still run, and destroys the world, which must no longer be in use.
  void disconnect();

  // Calls run() and returns exit code 0. If run() throws:
  // - If a child rank has failed and the error is not a ConfigError: throws CommError with the
  //   error of the child rank.
  // - Otherwise aborts the world, so that the other ranks end, too. If the launcher takes error
  //   reports (colossal run, or the first rank), sends it the error and returns the exit code for
  //   this process, which is not 0; else rethrows the error.
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
