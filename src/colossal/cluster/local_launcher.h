// Starts ranks on this machine as child processes: run_local_ranks() for jobs on one machine
// (start_local_ranks() if the caller supervises the ranks itself), start_following_ranks() if this
// process itself is rank 0 of such a job, and start_ranks() for one host of a job on several hosts.
// Each rank gets the environment variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and those of
// launch_variables.h. The ranks meet at the store, a key-value server that rank 0 runs at
// MASTER_ADDR and MASTER_PORT.
//
// Any program can be started. A "program of ours" (LaunchOptions::program_is_ours) also
//   - calls read_launch_environment() first, and starts no ranks if it is a rank itself;
//   - creates a StopListener (stop_listener.h), checks requested() at each step, and exits with
//     kStoppedExitCode when its state is saved;
//   - if it fails, passes its last message to send_error(). If send_error() returns true, the
//     launcher prints the message, only once if all ranks fail alike. If send_error() returns
//     false, the program itself must print the message.
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
  int num_ranks = 1;  // on one machine; start_ranks() uses HostTable::ranks_per_host
  // The lowest local rank that start_ranks() starts. 1: this process itself is local rank 0.
  int first_local_rank = 0;
  // Whether `program` is a program of ours (see above). If so, a job on one machine makes the
  // store's socket listen before the first rank starts, so that no rank has to retry its
  // connection. For another program, the socket reserves MASTER_PORT but does not listen, so that
  // the program can bind the port itself. start_ranks() ignores this field: its caller provides the
  // socket.
  bool program_is_ours = true;
  // Whether the launcher may start the ranks again (LaunchEnvironment::elastic).
  bool elastic = false;
  std::string memory_folder = {};  // LaunchEnvironment::memory_folder
  // Time for the other ranks to end after a rank has failed. start_ranks() ignores it.
  Grace grace = {};
};

// Starts `options.num_ranks` ranks of a job on this machine and supervises them (supervisor.h). The
// ranks meet on loopback at a free port. Returns the job's exit code (Supervisor::run()) when the
// last rank has ended. Throws ConfigError if `num_ranks` is less than 1 or the program cannot be
// started, and IoError if no socket or process can be created. Call it before this process has
// other threads.
int run_local_ranks(const LaunchOptions& options);

// Like run_local_ranks(), but returns the ranks as soon as they have started, and does not
// supervise them: the caller passes them to a Supervisor. guard: kills the ranks if this process
// dies; must outlive them.
std::vector<RankProcess> start_local_ranks(const LaunchOptions& options, OrphanGuard& guard);

// Where the other ranks of a job meet this process, which is rank 0.
struct MeetingPoint {
  FileDescriptor store;  // socket that listens at `port` of 127.0.0.1, for rank 0's store
  int port = 0;
  std::string job = {};  // name of the job, the value of kJobVariable
};

// For a process that becomes rank 0 of a job on this machine: starts ranks 1 to num_ranks - 1,
// which run this process's own executable with `arguments`, and sets *meeting. Returns the ranks,
// which are not supervised. guard: kills the ranks if this process dies; must outlive them. Throws
// ConfigError or IoError if a rank cannot be started.
std::vector<RankProcess> start_following_ranks(const std::vector<std::string>& arguments,
                                               int num_ranks, OrphanGuard& guard,
                                               MeetingPoint* meeting);

// Starts the ranks of the host hosts.own_index, and returns them. They are not supervised. start:
// the store's port and the job's name. guard: kills the ranks if this process dies; must outlive
// them. store_socket: the descriptor of the socket that is bound to start.store_port, which rank 0
// inherits; not used if rank 0 is not among the ranks that are started. Throws ConfigError or
// IoError if a rank cannot be started.
std::vector<RankProcess> start_ranks(const LaunchOptions& options, const HostTable& hosts,
                                     const JobStart& start, int store_socket, OrphanGuard& guard);

// Logs that the launcher was asked to stop before it started any rank. Returns kStoppedExitCode,
// with which the launcher then exits.
int stop_before_start();

// Returns a random name for a job: 16 hexadecimal digits.
std::string make_job_name();

}  // namespace colossal::cluster
