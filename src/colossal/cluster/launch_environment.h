// Determines which launcher started this process, its rank, the number of ranks, and the address at
// which the ranks meet. No other code reads the launchers' environment variables. Supported
// variables, in order of precedence (the innermost launcher first: mpirun inside a Slurm job starts
// its daemons with srun, whose variables remain set):
//   RANK, WORLD_SIZE, LOCAL_RANK ...           `colossal run`, `--ranks=N`, torchrun, Kubernetes
//   OMPI_COMM_WORLD_RANK, ..._SIZE ...         Open MPI's mpirun
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID ...    MPICH's and Intel's mpiexec
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS ...     srun
// With the last three, ranks on one host meet on loopback; ranks on several hosts meet on the first
// host of Slurm's list, and Open MPI and MPICH need MASTER_ADDR. The port is derived from the job's
// id. MASTER_ADDR and MASTER_PORT override these choices.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "colossal/comm/rendezvous.h"

namespace colossal::cluster {

struct LaunchEnvironment {
  std::string launcher = {};  // name for messages: "torchrun", "Slurm", ...
  comm::Rendezvous rendezvous = {};
  int local_rank = 0;  // on this host
  int local_size = 1;
  int num_hosts = 1;
  bool by_known_launcher = false;  // started by torchrun, mpirun, mpiexec or srun, not by ours
  int error_fd = -1;  // the pipe of send_error() to our launcher; -1: started by another
};

// Returns the value of a variable, or null.
using EnvironmentReader = std::function<const char*(const char* name)>;
const char* process_environment(const char* name);

// Returns nullopt if no launcher started this process as a rank. Throws ConfigError, naming
// variable and value, if a variable is missing, is not a number, or is inconsistent with another,
// or if ranks on several hosts have no address to meet at. Afterwards, if our launcher passed a
// socket for the store to this process (rank 0), the socket is listening, and programs that this
// process starts do not inherit it.
std::optional<LaunchEnvironment> read_launch_environment(
    const EnvironmentReader& environment = process_environment);

// If by_known_launcher: from now on, this process receives SIGUSR1, a stop request, when its parent
// (the launcher) dies, because mpirun leaves its ranks running if Ctrl-C is pressed twice. For our
// own launcher, does nothing: it ends its ranks itself.
void stop_with_launcher(const LaunchEnvironment& environment);

// Returns OMP_NUM_THREADS, of a list the first number. Returns nullopt if the variable is not set,
// is not a positive number (OpenMP itself warns), or is 1 under torchrun, which sets 1 by default.
std::optional<int> openmp_threads(const EnvironmentReader& environment = process_environment);

// Sends the last message of a failing rank to our launcher; call at most once. The launchers print
// it once on every host, with the rank's name, or without a name if all ranks fail alike. Returns
// false if our launcher did not start this process; the caller must then print the message. A
// message is cut after kMaxErrorBytes.
bool send_error(const LaunchEnvironment& environment, std::string_view message);

}  // namespace colossal::cluster
