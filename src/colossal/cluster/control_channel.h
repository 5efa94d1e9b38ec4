// Connects the launchers of a job on several hosts (`colossal run --hosts`), one launcher on each
// host. Each launcher has a TCP connection to the launcher on the first host, which forwards
// messages between all others. Over this channel the launchers start the job at the same time,
// learn where the store (comm/store.h) is, report failed ranks, and stop or kill the ranks of all
// hosts.
//
// Messages are lines of JSON (host_messages.h). The first host accepts connections only from the
// addresses of the job's hosts. Connections are not encrypted, and other users of these hosts can
// connect, as for all traffic between ranks.
#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/failure.h"
#include "colossal/cluster/line_socket.h"
#include "colossal/cluster/signal_queue.h"

namespace colossal::cluster {

// The hosts of a job. All hosts have the same number of ranks; host i has the ranks from
// i * ranks_per_host.
struct HostTable {
  std::vector<std::string> names = {};      // host names or addresses, as the user gave them
  std::vector<std::string> addresses = {};  // numeric IP addresses, one for each name
  int ranks_per_host = 1;
  int own_index = 0;  // of this machine, in `names`

  int size() const { return static_cast<int>(names.size()); }  // number of hosts
  const std::string& own_address() const { return addresses[own_index]; }
  std::string describe(int index) const;  // "host node7 (ranks 4 to 7)"
};

// What the first host's launcher sends to all other launchers when all have connected.
struct JobStart {
  int store_port = 0;  // port of rank 0's store, on the first host
  std::string job;     // name of the job, the value of kJobVariable (launch_variables.h)
};

// What a launcher tells all other launchers while the job runs.
struct HostMessage {
  enum class Kind {
    failed,  // a rank of the sender's host failed, or a host was lost
    stop,    // all ranks should save their state and end
    kill     // all ranks must be killed
  };
  Kind kind;
  Failure failure = {};  // set if kind is `failed`
};

// One launcher's end of the channel. Not thread-safe.
class ControlChannel {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // A channel for a job on one host: sends and receives nothing.
  ControlChannel() = default;

  // Called on the first host: listens at hosts.own_address() and `port`, waits until the launchers
  // of all other hosts have connected, then sends them `start`. Logs and refuses a launcher that
  // was given other hosts or another number of ranks than this launcher. Throws CommError with the
  // names of the missing hosts if the deadline passes, and IoError if it cannot listen. Returns
  // nullopt if `signals` receives a stop signal (stop_request.h).
  static std::optional<ControlChannel> gather(const HostTable& hosts, int port,
                                              const JobStart& start, Deadline deadline,
                                              SignalQueue& signals);
  // Called on all other hosts: connects to `port` of the first host, retrying until the deadline,
  // waits for the first host's JobStart, and stores it in *start. Throws ConfigError if the first
  // host refuses this launcher, CommError if the deadline passes, and IoError if
  // hosts.own_address() cannot be bound. Returns nullopt if `signals` receives a stop signal.
  static std::optional<ControlChannel> join(const HostTable& hosts, int port, JobStart* start,
                                            Deadline deadline, SignalQueue& signals);

  // Appends the open connections to `polled`. poll() then waits for messages, too.
  void add_to(std::vector<pollfd>& polled) const;

  // Returns the messages received from other hosts since the last call, without waiting. If the
  // connection of a host is lost before the host has called send_done(), returns a message of kind
  // `failed` for the host.
  std::vector<HostMessage> receive();

  // Sends a message to the launchers of all other hosts, without waiting. A lost connection is no
  // error here: receive() reports it.
  void send(const HostMessage& message);

  // Tells the launchers to which this one has a connection that all ranks of this host have ended.
  // They then do not report a loss of the connection.
  void send_done();
  // Whether this launcher may end. The first host's launcher, which forwards messages, may only end
  // when all other hosts are done or lost; the others may always end.
  bool may_leave() const;

 private:
  struct Peer {
    int index;  // of the peer's host, in hosts_
    LineSocket socket;
    bool done = false;  // sent its done message, or was reported as lost
  };

  explicit ControlChannel(const HostTable& hosts) : hosts_(hosts) {}
  // Handles a line from `peer`: forwards a message to the other peers and appends it to `messages`.
  void take(Peer& peer, const std::string& line, std::vector<HostMessage>& messages);
  // Sends a line to all peers except the one of host `index`; -1: to all peers.
  void send_to_all_but(int index, const std::string& line);

  HostTable hosts_;
  std::vector<Peer> peers_;  // on the first host all other hosts, on the others the first host
};

}  // namespace colossal::cluster
