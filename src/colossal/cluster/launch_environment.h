// Determines from environment variables which launcher started this process, its rank, the number
// of ranks, and the address at which the ranks meet. No other code reads the launchers' variables.
//
// Four sets of variables are read, one for each line below. A rank may have several of them,
// because a launcher that another launcher has started passes on the other's variables. For
// example, mpirun in a Slurm job starts its daemons with srun. The uppermost set that is present
// then counts, as it is of the launcher that has started the rank itself.
//   RANK, WORLD_SIZE, LOCAL_RANK ...           `colossal run`, `--ranks=N`, torchrun, Kubernetes
//   OMPI_COMM_WORLD_RANK, ..._SIZE ...         Open MPI's mpirun
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID ...    MPICH's and Intel's mpiexec
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS ...     srun
//
// With the first set, the ranks meet at MASTER_ADDR and MASTER_PORT. With the other sets, these two
// variables may be missing. Without MASTER_ADDR, the ranks of a job on one host meet on loopback,
// those of an srun on several hosts on the first host of Slurm's list; mpirun on several hosts
// needs MASTER_ADDR, and mpiexec on several hosts, which gives no job id, MASTER_ADDR and
// MASTER_PORT. Otherwise, without MASTER_PORT, the port is derived from the job's id or, under
// mpiexec on one host, from the process id of the ranks' parent.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "colossal/comm/rendezvous.h"

namespace colossal::cluster {

// How a launcher started this process as a rank. "Our launcher" is `colossal run` or a command with
// `--ranks=N`.
struct LaunchEnvironment {
  std::string launcher = {};         // name for messages: "torchrun", "Slurm", ...
  comm::Rendezvous rendezvous = {};  // rank, number of ranks, and where they meet; for connect()
  int local_rank = 0;                // number of this rank among the ranks of its host
  int local_size = 1;                // number of ranks on this host
  int num_hosts = 1;
  bool by_known_launcher = false;  // whether torchrun, mpirun, mpiexec or srun started this process
  // Whether our launcher starts the ranks again when they have stopped for a pause.
  bool elastic = false;
  // Folder in memory that outlives this rank (kMemoryFolderVariable); empty: none.
  std::string memory_folder = {};
  // Descriptors of the pipes to our launcher, for send_error() and send_progress(); -1 if another
  // launcher started this process.
  int error_fd = -1;
  int progress_fd = -1;
};

// Returns the value of an environment variable; null if it is not set.
using EnvironmentReader = std::function<const char*(const char* name)>;
// The EnvironmentReader for the variables of this process.
const char* process_environment(const char* name);

// Returns how this process was started; nullopt if no launcher started it as a rank. Throws
// ConfigError with the variable's name and value if a variable is missing, is not a number, or is
// inconsistent with another. Throws ConfigError, too, if ranks on several hosts have no address to
// meet at. If our launcher passed a socket for the store (to rank 0), makes the socket listen and
// keeps programs that this process starts from inheriting it.
std::optional<LaunchEnvironment> read_launch_environment(
    const EnvironmentReader& environment = process_environment);

// Returns read_launch_environment() for a command with the option --ranks, which starts ranks
// itself where no launcher has done so. ranks: value of the option; nullopt: not given. Another
// launcher than ours that has started this process as the only rank does not count if more ranks
// are asked for: the process may be a shell of the user (`srun --pty bash`). Throws ConfigError if
// a launcher has started another number of ranks.
std::optional<LaunchEnvironment> read_launch_environment(const std::optional<int>& ranks);

// If environment.by_known_launcher: from now on, this process receives SIGUSR1, a stop request
// (stop_request.h), when its parent dies. This is needed because mpirun leaves its ranks running if
// Ctrl-C is pressed twice. Otherwise does nothing; our launcher ends its ranks itself.
void stop_with_launcher(const LaunchEnvironment& environment);

// Returns the number in the variable OMP_NUM_THREADS, or the first number if its value is a list.
// Returns nullopt if the variable is not set or does not begin with a positive number, or if it is
// 1 under torchrun, which sets 1 by default.
std::optional<int> openmp_threads(const EnvironmentReader& environment = process_environment);

// Sends the last message of a failing rank to our launcher. Call it at most once. The launchers
// print the message once on every host, after the rank's name, or without a name if all ranks fail
// alike (JobOutcome::all_failed_alike()). A message longer than kMaxErrorBytes is cut. Returns
// whether the message was sent. If not, because our launcher did not start this process or the pipe
// is broken, the caller must print the message.
bool send_error(const LaunchEnvironment& environment, std::string_view message);

// Tells our launcher that the job has made progress: what it has done so far would not be lost by a
// failure (RestartPolicy). Does nothing under other launchers.
void send_progress(const LaunchEnvironment& environment);

}  // namespace colossal::cluster
