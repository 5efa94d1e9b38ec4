#include "colossal/cluster/launch_environment.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <csignal>
#include <cstdlib>

#include "colossal/base/error.h"
#include "colossal/cluster/environment_values.h"
#include "colossal/cluster/host_list.h"
#include "colossal/cluster/launch_variables.h"
#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

// Below 32768, from which the kernel assigns ports to outgoing connections.
constexpr int kFirstDerivedPort = 20000;
constexpr int kDerivedPorts = 12000;

// Returns a port that is equal on all ranks of a job, and usually differs between jobs on a host.
int port_of_job(std::string_view job) {
  // FNV-1a, because std::hash may differ between the builds on two hosts.
  uint64_t hash = 14695981039346656037ULL;
  for (const unsigned char c : job) hash = (hash ^ c) * 1099511628211ULL;
  return kFirstDerivedPort + static_cast<int>(hash % kDerivedPorts);
}

int hosts_of(const LaunchEnvironment& launch) {
  return (launch.rendezvous.size + launch.local_size - 1) / launch.local_size;
}

// Sets where the ranks meet if the launcher does not say it: at MASTER_ADDR and MASTER_PORT if
// these are set; else at loopback on one host or at `first_host`, and at a port derived from `job`.
void choose_meeting_point(const EnvironmentValues& values, const std::string& job,
                          const std::string& first_host, LaunchEnvironment& launch) {
  comm::Rendezvous& meeting = launch.rendezvous;
  meeting.prefix = job;
  meeting.port = values.number_or("MASTER_PORT", 1, 65535, port_of_job(job));
  if (values.has("MASTER_ADDR")) {
    meeting.address = values.text("MASTER_ADDR");
  } else if (launch.num_hosts == 1) {
    meeting.address = kLoopback;
  } else if (!first_host.empty()) {
    meeting.address = first_host;
  } else {
    throw ConfigError(fmt::format(
        "{} started {} ranks on {} hosts, but does not say where they can meet; set MASTER_ADDR "
        "to an address of rank 0's host and MASTER_PORT to a free port there (mpirun -x "
        "MASTER_ADDR=... -x MASTER_PORT=...)",
        launch.launcher, meeting.size, launch.num_hosts));
  }
}

bool is_loopback_name(const std::string& host) {
  return host == "localhost" || is_loopback(host);
}

// Returns the address that this host's data sockets bind: the one that faces the meeting point.
std::string choose_interface(const EnvironmentValues& values, const LaunchEnvironment& launch) {
  if (values.has(kInterfaceVariable)) return values.text(kInterfaceVariable);
  const std::string& meeting = launch.rendezvous.address;
  if (launch.num_hosts == 1 || is_loopback_name(meeting)) return kLoopback;
  const std::string named =
      fmt::format("{} started {} ranks on {} hosts, which are to meet at '{}'", launch.launcher,
                  launch.rendezvous.size, launch.num_hosts, meeting);
  std::string own;
  try {
    own = address_towards(resolve(meeting).front());
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format(
        "{}: {}; set MASTER_ADDR to an address of rank 0's host (127.0.0.1 where all of them are "
        "this one host)",
        named, error.what()));
  }
  if (is_loopback(own)) {
    throw ConfigError(fmt::format(
        "{}, but on this host that name means {}, which other hosts cannot reach; set MASTER_ADDR "
        "to an address on the network (127.0.0.1 where all of them are this one host), or {} to "
        "this host's own",
        named, own, kInterfaceVariable));
  }
  return own;
}

// Takes over the socket that `colossal run` has bound for rank 0's store.
int adopt_store_socket(const EnvironmentValues& values, int port) {
  const int fd = values.number(kStoreVariable, 3, INT_MAX);
  FileDescriptor socket(fd);
  int is_stream = 0;
  socklen_t size = sizeof is_stream;
  const bool usable = getsockopt(fd, SOL_SOCKET, SO_TYPE, &is_stream, &size) == 0 &&
                      is_stream == SOCK_STREAM && bound_port(socket) == port;
  if (!usable) {
    (void)socket.release();
    throw ConfigError(
        fmt::format("environment variable {} is {}, which is not a socket bound to MASTER_PORT {}; "
                    "`colossal run` sets it, and it must not be kept or copied",
                    kStoreVariable, fd, port));
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  listen_on(socket);
  return socket.release();
}

// Reads RANK and WORLD_SIZE, as `colossal run`, torchrun and other launchers set them.
LaunchEnvironment read_torch_variables(const EnvironmentValues& values) {
  LaunchEnvironment launch;
  comm::Rendezvous& meeting = launch.rendezvous;
  const bool ours = values.has(kJobVariable);
  const bool torchrun = !ours && values.has("TORCHELASTIC_RUN_ID");
  launch.by_known_launcher = torchrun;
  launch.launcher = ours       ? "colossal run"
                    : torchrun ? "torchrun"
                               : "a launcher that sets RANK and WORLD_SIZE";
  values.read_rank("RANK", "WORLD_SIZE", &meeting.rank, &meeting.size);

  if (meeting.size > 1 || values.has("MASTER_ADDR")) {
    meeting.address = values.required_text("MASTER_ADDR");
    meeting.port = values.number("MASTER_PORT", 1, 65535);
  }
  if (values.has("LOCAL_WORLD_SIZE")) {
    values.read_rank("LOCAL_RANK", "LOCAL_WORLD_SIZE", &launch.local_rank, &launch.local_size);
  } else if (is_loopback_name(meeting.address)) {
    launch.local_rank = meeting.rank;
    launch.local_size = meeting.size;
  }
  launch.num_hosts = values.number_or("GROUP_WORLD_SIZE", 1, INT_MAX, hosts_of(launch));

  meeting.store_is_served = values.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (ours) meeting.prefix = values.text(kJobVariable);
  launch.elastic = ours && values.has(kElasticVariable);
  if (ours) launch.memory_folder = values.text(kMemoryFolderVariable);
  if (torchrun) {
    meeting.prefix = fmt::format("{}/{}", values.text("TORCHELASTIC_RUN_ID"),
                                 values.text("TORCHELASTIC_RESTART_COUNT"));
  }
  if (ours && values.has(kStoreVariable)) {
    meeting.listen_fd = adopt_store_socket(values, meeting.port);
  }
  if (ours && values.has(kErrorVariable)) {
    launch.error_fd = values.number(kErrorVariable, 3, INT_MAX);
    fcntl(launch.error_fd, F_SETFD, FD_CLOEXEC);
  }
  if (ours && values.has(kProgressVariable)) {
    launch.progress_fd = values.number(kProgressVariable, 3, INT_MAX);
    fcntl(launch.progress_fd, F_SETFD, FD_CLOEXEC);
    fcntl(launch.progress_fd, F_SETFL, O_NONBLOCK);
  }
  return launch;
}

LaunchEnvironment read_open_mpi(const EnvironmentValues& values) {
  LaunchEnvironment launch{.launcher = "Open MPI", .by_known_launcher = true};
  values.read_rank("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", &launch.rendezvous.rank,
                   &launch.rendezvous.size);
  values.read_rank("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", &launch.local_rank,
                   &launch.local_size);
  launch.num_hosts = hosts_of(launch);
  const std::string job =
      values.first_text({"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"});
  choose_meeting_point(values, "mpirun/" + job, "", launch);
  return launch;
}

LaunchEnvironment read_mpich(const EnvironmentValues& values) {
  LaunchEnvironment launch{.launcher = "MPICH", .by_known_launcher = true};
  values.read_rank("PMI_RANK", "PMI_SIZE", &launch.rendezvous.rank, &launch.rendezvous.size);
  values.read_rank("MPI_LOCALRANKID", "MPI_LOCALNRANKS", &launch.local_rank, &launch.local_size);
  launch.num_hosts = hosts_of(launch);
  // Hydra does not name the job. All ranks on a host are children of its proxy.
  const bool meet_elsewhere = launch.num_hosts > 1 && values.has("MASTER_ADDR");
  const std::string job =
      meet_elsewhere ? values.required_text("MASTER_PORT") : std::to_string(getppid());
  choose_meeting_point(values, "mpiexec/" + job, "", launch);
  return launch;
}

LaunchEnvironment read_slurm(const EnvironmentValues& values) {
  LaunchEnvironment launch{.launcher = "Slurm", .by_known_launcher = true};
  values.read_rank("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", &launch.rendezvous.rank,
                   &launch.rendezvous.size);
  launch.num_hosts = values.number("SLURM_STEP_NUM_NODES", 1, INT_MAX);
  const int host = values.number_or("SLURM_NODEID", 0, launch.num_hosts - 1, 0);
  const auto hosts = expand_host_list(values.text("SLURM_STEP_NODELIST"));
  const auto tasks = expand_counts(values.text("SLURM_STEP_TASKS_PER_NODE"));
  if (tasks.size() != static_cast<size_t>(launch.num_hosts)) {
    throw ConfigError(
        fmt::format("SLURM_STEP_TASKS_PER_NODE '{}' is for {} hosts, but "
                    "SLURM_STEP_NUM_NODES is {}",
                    values.text("SLURM_STEP_TASKS_PER_NODE"), tasks.size(), launch.num_hosts));
  }
  launch.local_size = tasks[host];
  launch.local_rank = values.number("SLURM_LOCALID", 0, launch.local_size - 1);
  const std::string job =
      fmt::format("slurm/{}.{}/{}", values.text("SLURM_JOB_ID"), values.text("SLURM_STEP_ID"),
                  values.text("SLURM_RESTART_COUNT"));
  choose_meeting_point(values, job, hosts.front(), launch);
  return launch;
}

std::optional<LaunchEnvironment> read_any_launcher(const EnvironmentValues& values) {
  if (values.has("RANK")) return read_torch_variables(values);
  if (values.has("OMPI_COMM_WORLD_RANK")) return read_open_mpi(values);
  if (values.has("PMI_RANK") && values.has("MPI_LOCALRANKID")) return read_mpich(values);
  // A batch script has SLURM_PROCID too, but runs only once. Only a step has a number of tasks.
  if (values.has("SLURM_PROCID") && values.has("SLURM_STEP_NUM_TASKS")) return read_slurm(values);
  return std::nullopt;
}

}  // namespace

const char* process_environment(const char* name) {
  return std::getenv(name);
}

std::optional<LaunchEnvironment> read_launch_environment(const EnvironmentReader& environment) {
  const EnvironmentValues values(environment);
  std::optional<LaunchEnvironment> launch = read_any_launcher(values);
  if (launch) launch->rendezvous.interface_address = choose_interface(values, *launch);
  return launch;
}

std::optional<LaunchEnvironment> read_launch_environment(const std::optional<int>& ranks) {
  auto launch = read_launch_environment();
  if (!launch || !ranks || *ranks == launch->rendezvous.size) return launch;
  const bool is_ours = launch->error_fd >= 0;
  if (launch->rendezvous.size == 1 && !is_ours) {
    stop_with_launcher(*launch);
    return std::nullopt;
  }
  throw ConfigError(fmt::format(
      "--ranks={}, but {} has started this process as one of {} ranks; leave --ranks out", *ranks,
      launch->launcher, launch->rendezvous.size));
}

void stop_with_launcher(const LaunchEnvironment& environment) {
  // Not SIGTERM: if the launcher has sent one before it ended, another would end the rank at once.
  if (environment.by_known_launcher) prctl(PR_SET_PDEATHSIG, SIGUSR1);
}

std::optional<int> openmp_threads(const EnvironmentReader& environment) {
  const EnvironmentValues values(environment);
  // OMP_NUM_THREADS may be a list with a number for each level of nesting. Reads the first.
  const std::string text = values.text("OMP_NUM_THREADS");
  int threads = 0;
  std::from_chars(text.data(), text.data() + text.size(), threads);
  const bool by_torchrun = threads == 1 && values.has("TORCHELASTIC_RUN_ID");
  return threads < 1 || by_torchrun ? std::nullopt : std::optional(threads);
}

bool send_error(const LaunchEnvironment& environment, std::string_view message) {
  if (environment.error_fd < 0) return false;
  // The pipe is empty and has room for this, so the write neither blocks nor is divided.
  const std::string_view kept = message.substr(0, kMaxErrorBytes);
  return write(environment.error_fd, kept.data(), kept.size()) == static_cast<ssize_t>(kept.size());
}

void send_progress(const LaunchEnvironment& environment) {
  if (environment.progress_fd < 0) return;
  // If the pipe is full, our launcher has enough to read.
  [[maybe_unused]] const ssize_t written = write(environment.progress_fd, ".", 1);
}

}  // namespace colossal::cluster
