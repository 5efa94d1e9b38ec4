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
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/failure.h"
#include "colossal/cluster/host_table.h"
#include "colossal/cluster/line_socket.h"
#include "colossal/cluster/reception.h"
#include "colossal/cluster/signal_queue.h"

namespace colossal::cluster {

// Tells all launchers to start the ranks of their hosts.
struct JobStart {
  int store_port = 0;  // port of rank 0's store, on the first host
  std::string job;     // name of the job, the value of kJobVariable (launch_variables.h)
  // Indices of the hosts whose ranks are started, ascending, in the table of all hosts. The first
  // host is always among them. All hosts, unless the job is elastic.
  std::vector<int> members;
};

// What the first host's launcher tells another launcher to do next.
struct Order {
  std::optional<JobStart> start;  // start the ranks; nullopt: end
  int exit_code = 0;              // with which the launcher ends
};

// What a launcher tells all other launchers while the ranks run.
struct HostMessage {
  enum class Kind {
    failed,   // a rank of the sender's host failed, or a host was lost
    stop,     // all ranks should save their state, and the job ends
    kill,     // all ranks must be killed, and the job ends
    stopped,  // a rank of the sender's host has stopped by itself: all others should stop, too
    pause,    // all ranks should save their state; an elastic job then goes on with other ranks
    leave     // the sender's host asks to leave an elastic job
  };
  Kind kind;
  Failure failure = {};  // set if kind is `failed`
  // JobStart::job of the ranks that the message is about; ControlChannel sets it. Empty: the sender
  // runs no ranks.
  std::string job = {};
};

// One launcher's end of the channel. Not thread-safe.
class ControlChannel {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // A channel for a job on one host: sends and receives nothing.
  ControlChannel() = default;

  // Called on the first host: listens at hosts.own_address() and `port`, and waits until the
  // launchers of all other hosts have connected. Logs and refuses a launcher that was given other
  // hosts or another number of ranks than this launcher. elastic: go on listening, so that hosts
  // can join later. If the deadline passes and at least min_hosts hosts are there, this one
  // included, returns without the others. Otherwise throws CommError with the names of the missing
  // hosts. Throws IoError if it cannot listen. Returns nullopt if `signals` receives a stop signal
  // (stop_request.h).
  static std::optional<ControlChannel> gather(const HostTable& hosts, int port, bool elastic,
                                              int min_hosts, Deadline deadline,
                                              SignalQueue& signals);
  // Called on all other hosts: connects to `port` of the first host, retrying until the deadline,
  // waits for the first host's order, and stores it in *order. elastic: wait for the order without
  // a limit once connected, and also retry if a launcher of this host is already connected. Throws
  // ConfigError if the first host refuses this launcher, CommError if the deadline passes, and
  // IoError if hosts.own_address() cannot be bound. Returns nullopt if `signals` receives a stop
  // signal.
  static std::optional<ControlChannel> join(const HostTable& hosts, int port, bool elastic,
                                            Order* order, Deadline deadline, SignalQueue& signals);

  // Appends the open connections to `polled`. poll() then waits for messages, too.
  void add_to(std::vector<pollfd>& polled) const;

  // Returns the messages received from other hosts since the last call, without waiting. If the
  // connection of a member is lost before the host has called send_done(), returns a message of
  // kind `failed` for the host. On the first host of an elastic job, also lets hosts join.
  std::vector<HostMessage> receive();

  // Sends a message to the launchers of all other members, without waiting. A lost connection is no
  // error here: receive() reports it.
  void send(HostMessage message);

  // Tells the launchers to which this one has a connection that all ranks of this host have ended.
  // They then do not report a loss of the connection.
  void send_done();
  // Whether this launcher may end. The first host's launcher, which forwards messages, may only end
  // when all other members are done or lost; the others may always end.
  bool may_leave() const;

  // The following five are for the first host.
  // Makes start.members the members of the job, and sends them the order to start. Hosts that have
  // asked to leave get the order to end with kStoppedExitCode.
  void start(const JobStart& start);
  // Sends all connected hosts the order to end.
  void end(int exit_code);
  // Returns the indices, ascending, of this host and of the connected hosts that have not asked to
  // leave.
  std::vector<int> present() const;
  // Whether a host has joined or has asked to leave since the last call of start().
  bool membership_changes() const;
  bool has_leaving_host() const;  // whether one has asked to leave since then

  // For the other hosts: waits for the next order of the first host. If `signals` receives SIGINT
  // meanwhile, asks the first host to stop the job; at a second one that insists, returns the order
  // to end with kStoppedExitCode. At SIGTERM or SIGUSR1, tells the first host that this host
  // leaves, and returns that order at once. Returns nullopt if the first host is lost.
  std::optional<Order> next_order(SignalQueue& signals);

 private:
  struct Peer {
    int index;  // of the peer's host, in hosts_
    LineSocket socket;
    bool member = false;   // whether the host takes part in the current start
    bool done = true;      // sent its done message, or was reported as lost, or is no member
    bool joined = true;    // since the last start()
    bool leaving = false;  // has asked to leave
  };

  explicit ControlChannel(const HostTable& hosts) : hosts_(hosts) {}
  // Handles a line from `peer`: forwards a message to the other peers and appends it to `messages`.
  void take(Peer& peer, const std::string& line, std::vector<HostMessage>& messages);
  const std::string& newest_job() const;
  // Sends a line to all members except the one of host `index`; -1: to all members.
  void send_to_all_but(int index, const std::string& line);
  void let_join();                                 // calls reception_->receive()
  std::string describe(int index) const;           // of a host, with its ranks if it is a member
  std::vector<std::string> missing_hosts() const;  // names of the hosts that are not connected

  HostTable hosts_;
  std::string job_;                       // JobStart::job of the current start; empty: none yet
  std::vector<int> members_;              // JobStart::members of the current start
  std::vector<Peer> peers_;               // on the first host all other hosts, else the first host
  std::unique_ptr<Reception> reception_;  // on the first host, while hosts may join
  std::vector<Order> orders_;             // received, but not returned by next_order() yet
  std::vector<HostMessage> held_;         // received after orders_, for the next receive()
};

}  // namespace colossal::cluster
