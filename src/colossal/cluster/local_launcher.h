// Starts ranks on this machine as child processes, as torchrun would: RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
//
// What a program must do to end well under it (one of ours; any other just runs):
//   - read_launch_environment() first; it finds itself launched and does not launch again;
//   - make a StopListener, look at its requested() each step, and exit with kStoppedExitCode once
//     what was done is saved;
//   - hand its last message to send_error(), and print it itself only where that says false. The
//     launcher prints one message however many ranks fail alike.
#pragma once

#include <string>
#include <vector>

#include "colossal/base/file_descriptor.h"
#include "colossal/cluster/control_channel.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/supervisor.h"

namespace colossal::cluster {

struct LaunchOptions {
  std::string program = {};  // a path, or a name to look up in PATH
  std::vector<std::string> arguments = {};
  int num_ranks = 1;
  int first_local_rank = 0;  // on each host; those before it are not started here
  // It does what is said above; any other program is run as it is. For one of ours the store's
  // socket is listening before the first rank starts, so that no rank has to try twice; others bind
  // MASTER_PORT themselves, which a socket that is bound, but not listening, lets them do.
  bool program_is_ours = true;
  Grace grace = {};
};

// Starts the ranks, which meet on loopback only, at a port that was free and stays theirs; returns
// the job's exit code (Supervisor::run) when the last process is gone. Throws ConfigError when the
// program cannot be started. Must be called before this process has other threads.
int run_local_ranks(const LaunchOptions& options);

// Where ranks 1 .. of `num_ranks` ranks on this machine meet this process, which is their rank 0.
struct MeetingPoint {
  FileDescriptor store;  // listens at `port` of 127.0.0.1; rank 0 serves the store there
  int port = 0;
  std::string job = {};
};

// Starts those ranks of the program, which is ours. Throws as run_local_ranks() does.
std::vector<RankProcess> start_following_ranks(const std::vector<std::string>& arguments,
                                               int num_ranks, OrphanGuard& guard,
                                               MeetingPoint* meeting);

// Starts the ranks of this host of `hosts`, without watching them yet. `store_socket` is rank 0's,
// or -1 on other hosts.
std::vector<RankProcess> start_ranks(const LaunchOptions& options, const HostTable& hosts,
                                     const JobStart& start, int store_socket, OrphanGuard& guard);

// Says that the launcher was asked to stop before it started a rank; returns kStoppedExitCode.
int stop_before_start();

// A name that no other job of this time has.
std::string make_job_name();

}  // namespace colossal::cluster
