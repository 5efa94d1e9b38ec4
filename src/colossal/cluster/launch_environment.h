// Who launched this process, as which rank of how many, and where the others are. The environment
// is read here and nowhere else. It understands, the innermost launcher first (mpirun inside a
// Slurm job starts its own daemons by srun, and their variables are left lying about):
//   RANK, WORLD_SIZE, LOCAL_RANK ...           `colossal run`, `--ranks=N`, torchrun, Kubernetes
//   OMPI_COMM_WORLD_RANK, ..._SIZE ...         Open MPI's mpirun
//   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID ...    MPICH's and Intel's mpiexec
//   SLURM_PROCID, SLURM_STEP_NUM_TASKS ...     srun
// Under the last three, ranks on one host meet on loopback, at a port made from the job's id. On
// several hosts they meet on the first host of Slurm's list, or where MASTER_ADDR and MASTER_PORT
// say.
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
  bool by_known_launcher = false;  // our parent process, which stays until this rank has ended
  int error_fd = -1;  // where our own launcher reads what a failing rank says; see send_error()
};

// The value of a variable, or null.
using EnvironmentReader = std::function<const char*(const char* name)>;
const char* process_environment(const char* name);

// Returns nothing if nobody launched this process as a rank. Throws ConfigError, naming variable
// and value, if variables are missing, not numbers or inconsistent, and if ranks on several hosts
// have no address to meet at. Afterwards the store's socket that our launcher made for rank 0 is
// listening, and no program that this process starts inherits it.
std::optional<LaunchEnvironment> read_launch_environment(
    const EnvironmentReader& environment = process_environment);

// From now on the loss of a launcher that is not ours is a stop request to this process: mpirun,
// pressed twice, leaves its ranks behind. Our own launcher sees to that itself.
void stop_with_launcher(const LaunchEnvironment& environment);

// Returns OMP_NUM_THREADS. None if it is not set, is no number (OpenMP itself warns then), or was
// set by torchrun, which gives each rank one thread unless somebody says more.
std::optional<int> openmp_threads(const EnvironmentReader& environment = process_environment);

// Hands our launcher the message with which this rank ends; it prints it once, with the rank's
// name, on every host, or without when all ranks fail alike. False where there is no such launcher:
// then the caller prints it. At most 4,000 bytes are kept.
bool send_error(const LaunchEnvironment& environment, std::string_view message);

}  // namespace colossal::cluster
