#include "colossal/cluster/local_launcher.h"

#include <unistd.h>

#include <random>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/launch_variables.h"
#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

std::string own_host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

std::string make_job_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

int stop_before_start() {
  log::info("asked to stop before any rank was started; nothing is lost");
  return kStoppedExitCode;
}

std::vector<RankProcess> start_ranks(const LaunchOptions& options, const HostTable& hosts,
                                     const JobStart& start, int store_socket, OrphanGuard& guard) {
  const int local_size = hosts.ranks_per_host;
  std::vector<RankProcess> ranks;
  for (int local_rank = options.first_local_rank; local_rank < local_size; ++local_rank) {
    const int rank = hosts.own_index * local_size + local_rank;
    RankCommand command{
        .program = options.program,
        .arguments = options.arguments,
        .variables = {{"RANK", std::to_string(rank)},
                      {"WORLD_SIZE", std::to_string(hosts.size() * local_size)},
                      {"LOCAL_RANK", std::to_string(local_rank)},
                      {"LOCAL_WORLD_SIZE", std::to_string(local_size)},
                      {"GROUP_RANK", std::to_string(hosts.own_index)},
                      {"GROUP_WORLD_SIZE", std::to_string(hosts.size())},
                      {"MASTER_ADDR", hosts.addresses[0]},
                      {"MASTER_PORT", std::to_string(start.store_port)},
                      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                      {kStoreVariable, rank == 0 ? std::to_string(store_socket) : ""},
                      {kInterfaceVariable, hosts.own_address()},
                      {kElasticVariable, options.elastic ? "1" : ""},
                      {kMemoryFolderVariable, options.memory_folder},
                      {kJobVariable, start.job}},
        .rank = rank,
        .host = hosts.names[hosts.own_index]};
    if (rank == 0) command.store_socket = store_socket;
    ranks.emplace_back(command, guard);
  }
  return ranks;
}

std::vector<RankProcess> start_following_ranks(const std::vector<std::string>& arguments,
                                               int num_ranks, OrphanGuard& guard,
                                               MeetingPoint* meeting) {
  meeting->store = bind_socket("127.0.0.1", 0);
  listen_on(meeting->store);
  meeting->port = bound_port(meeting->store);
  meeting->job = make_job_name();
  return start_ranks(
      {.program = "/proc/self/exe",
       .arguments = arguments,
       .num_ranks = num_ranks,
       .first_local_rank = 1},
      {.names = {own_host_name()}, .addresses = {"127.0.0.1"}, .ranks_per_host = num_ranks},
      {meeting->port, meeting->job, {0}}, meeting->store.get(), guard);
}

std::vector<RankProcess> start_local_ranks(const LaunchOptions& options, OrphanGuard& guard) {
  if (options.num_ranks < 1) {
    throw ConfigError(
        fmt::format("number of ranks is {}; it must be 1 or more", options.num_ranks));
  }
  const HostTable here{
      .names = {own_host_name()}, .addresses = {"127.0.0.1"}, .ranks_per_host = options.num_ranks};
  FileDescriptor store = bind_socket("127.0.0.1", 0);
  if (options.program_is_ours) listen_on(store);
  const JobStart start{bound_port(store), make_job_name(), {0}};
  return start_ranks(options, here, start, store.get(), guard);
}

int run_local_ranks(const LaunchOptions& options) {
  SignalQueue signals(kSupervisedSignals);
  OrphanGuard guard;
  if (any_stop_signal(signals.take())) return stop_before_start();
  ControlChannel channel;
  return Supervisor(start_local_ranks(options, guard), channel, signals,
                    {.grace = options.grace, .program_is_ours = options.program_is_ours})
      .run();
}

}  // namespace colossal::cluster
