// Starts ranks on this machine as child processes, with the environment variables of torchrun:
// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT.
//
// A program that is ours does the following (any other program simply runs):
//   - calls read_launch_environment() first, and does not launch again if it was launched;
//   - creates a StopListener, checks requested() at each step, and exits with kStoppedExitCode once
//     its state is saved;
//   - passes its last message to send_error(), and prints it only if that returns false. The
//     launcher prints a single message even if many ranks fail alike.
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
  int first_local_rank = 0;  // on each host; lower local ranks are not started here
  // The program does what is listed above. For a program of ours the store's socket listens before
  // the first rank starts, so that no rank has to retry its connection. For any other program the
  // socket is bound but not listening, so that the program can bind MASTER_PORT itself.
  bool program_is_ours = true;
  Grace grace = {};
};

// Starts the ranks and waits for them. They meet on loopback, at a free port that is reserved for
// them. Returns the job's exit code (Supervisor::run) when the last process has ended. Throws
// ConfigError if the program cannot be started. Must be called before this process has other
// threads.
int run_local_ranks(const LaunchOptions& options);

// Where the started ranks meet this process, which is rank 0 of the job.
struct MeetingPoint {
  FileDescriptor store;  // listens at `port` of 127.0.0.1; rank 0 serves the store there
  int port = 0;
  std::string job = {};
};

// Starts ranks 1 .. num_ranks - 1 of this program. Sets *meeting. Throws as run_local_ranks() does.
std::vector<RankProcess> start_following_ranks(const std::vector<std::string>& arguments,
                                               int num_ranks, OrphanGuard& guard,
                                               MeetingPoint* meeting);

// Starts the ranks of this host of `hosts`, without supervising them yet. store_socket: rank 0's
// socket on the first host, -1 on other hosts.
std::vector<RankProcess> start_ranks(const LaunchOptions& options, const HostTable& hosts,
                                     const JobStart& start, int store_socket, OrphanGuard& guard);

// Logs that the launcher was asked to stop before it started a rank. Returns kStoppedExitCode.
int stop_before_start();

// Returns a name that no other job of this time has.
std::string make_job_name();

}  // namespace colossal::cluster
