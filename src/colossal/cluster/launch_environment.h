// Finds out which launcher started this process, its rank, the number of ranks, and where the ranks
// meet. No other code reads the launchers' environment variables. Supported variables, in order of
// precedence (the innermost launcher first: mpirun inside a Slurm job starts its daemons with srun,
// whose variables remain set):
//   RANK, WORLD_SIZE, LOCAL_RANK ...           `colossal run`, `--ranks=N`, torchrun, Kubernetes
//   OMPI_COMM_WORLD_RANK, ..._SIZE ...         Open MPI's mpirun
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID ...    MPICH's and Intel's mpiexec
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS ...     srun
// With the last three, ranks on one host meet on loopback, at a port derived from the job's id.
// Ranks on several hosts meet on the first host of Slurm's list. MASTER_ADDR and MASTER_PORT
// override both.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "colossal/comm/rendezvous.h"

namespace colossal::cluster {

struct LaunchEnvironment {
  std::string launcher = {};  // for messages: "torchrun", "Slurm", ...
  comm::Rendezvous rendezvous = {};
  int local_rank = 0;  // on this host
  int local_size = 1;
  int num_hosts = 1;
  bool by_known_launcher = false;  // started by torchrun, mpirun, mpiexec or srun
  int error_fd = -1;  // where our launcher reads this rank's last message, or -1; see send_error()
};

// Returns the value of a variable, or null.
using EnvironmentReader = std::function<const char*(const char* name)>;
const char* process_environment(const char* name);

// Returns nullopt if no launcher started this process as a rank. Throws ConfigError, naming
// variable and value, if a variable is missing, is not a number, or is inconsistent with another,
// or if ranks on several hosts have no address to meet at. If our launcher created a socket for
// rank 0's store, the socket is listening afterwards, and programs that this process starts do not
// inherit it.
std::optional<LaunchEnvironment> read_launch_environment(
    const EnvironmentReader& environment = process_environment);

// From now on, the death of a launcher that is not ours is a stop request to this process: mpirun
// leaves its ranks running if Ctrl-C is pressed twice. Our own launcher ends its ranks itself.
void stop_with_launcher(const LaunchEnvironment& environment);

// Returns OMP_NUM_THREADS. Returns nullopt if the variable is not set, is not a number (OpenMP
// itself warns), or was set by torchrun, which sets 1 by default.
std::optional<int> openmp_threads(const EnvironmentReader& environment = process_environment);

// Sends the last message of a failing rank to our launcher. The launcher prints the message once on
// every host, with the rank's name, or without a name if all ranks fail alike. Returns false if
// there is no such launcher; the caller must then print the message. At most 4,000 bytes are kept.
bool send_error(const LaunchEnvironment& environment, std::string_view message);

}  // namespace colossal::cluster
