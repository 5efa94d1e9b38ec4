// Starts ranks on this machine as child processes, with the environment variables of torchrun:
// RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT.
//
// A program of ours does the following; other programs need not (LaunchOptions::program_is_ours):
//   - calls read_launch_environment() first, and starts no ranks if it was started as a rank;
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
  // The program does what is listed above. For a program of ours, the store's socket listens before
  // the first rank starts, so that no rank has to retry its connection. For any other program, the
  // socket only reserves MASTER_PORT: it does not listen, so that the program can bind the port
  // itself.
  bool program_is_ours = true;
  Grace grace = {};
};

// Starts the ranks and waits for them. They meet on loopback, at a free port that is reserved for
// them. Returns the job's exit code (Supervisor::run) when the last rank has ended. Throws
// ConfigError if the program cannot be started. Must be called before this process has other
// threads.
int run_local_ranks(const LaunchOptions& options);

// Where the other ranks meet this process, which is rank 0 of the job.
struct MeetingPoint {
  FileDescriptor store;  // listens at `port` of 127.0.0.1; rank 0 serves the store there
  int port = 0;
  std::string job = {};  // name of the job, see kJobVariable
};

// Starts ranks 1 .. num_ranks - 1, each running this process's own executable with `arguments`.
// Sets *meeting. Throws as run_local_ranks() does.
std::vector<RankProcess> start_following_ranks(const std::vector<std::string>& arguments,
                                               int num_ranks, OrphanGuard& guard,
                                               MeetingPoint* meeting);

// Starts those ranks that belong to this host (hosts.own_index), without supervising them yet.
// store_socket: on the first host the socket that rank 0 inherits, -1 on other hosts. Throws as
// run_local_ranks() does.
std::vector<RankProcess> start_ranks(const LaunchOptions& options, const HostTable& hosts,
                                     const JobStart& start, int store_socket, OrphanGuard& guard);

// Logs that the launcher was asked to stop before it started any rank. Returns kStoppedExitCode.
int stop_before_start();

// Returns a random name, 16 hexadecimal digits.
std::string make_job_name();

}  // namespace colossal::cluster
