// Connects the launchers of a job on several hosts, one launcher on each host. Each has a TCP
// connection to the launcher on the first host, which forwards messages between the others. Through
// this channel the launchers start together, learn where the store is, report a rank that died on
// any host, and stop together.
//
// Messages are lines of JSON. A connection is accepted only from the address of a listed host. Like
// all traffic between ranks, connections are neither encrypted nor protected against users of these
// hosts.
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

// The hosts of a job. Each host has the same number of ranks; ranks are numbered in the order of
// the list.
struct HostTable {
  std::vector<std::string> names = {};      // as the user gave them
  std::vector<std::string> addresses = {};  // numeric, one for each name
  int ranks_per_host = 1;
  int own_index = 0;

  int size() const { return static_cast<int>(names.size()); }
  const std::string& own_address() const { return addresses[own_index]; }
  std::string describe(int index) const;  // "host node7 (ranks 4 to 7)"
};

// Sent by the first host's launcher to all others once all have connected.
struct JobStart {
  int store_port = 0;  // of rank 0's store, on the first host
  std::string job;     // name of the job, see kJobVariable
};

// What a launcher tells the others: a rank of its host failed; all ranks should stop after saving
// their state; all ranks must be killed.
struct HostMessage {
  enum class Kind { failed, stop, kill };
  Kind kind;
  Failure failure = {};  // set if kind is `failed`
};

class ControlChannel {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // For a job on one host: sends and receives nothing.
  ControlChannel() = default;

  // gather(), on the first host: waits at own_address():port for the launchers of all other hosts,
  // then sends them `start`. join(), on another host: connects to the first host and waits for its
  // start message. Both throw ConfigError if a launcher was given other hosts or another number of
  // ranks than the first host's launcher, and CommError naming the missing hosts if the deadline
  // passes. Both return nullopt if `signals` receives a stop signal (stop_request.h).
  static std::optional<ControlChannel> gather(const HostTable& hosts, int port,
                                              const JobStart& start, Deadline deadline,
                                              SignalQueue& signals);
  static std::optional<ControlChannel> join(const HostTable& hosts, int port, JobStart* start,
                                            Deadline deadline, SignalQueue& signals);

  // Appends the open connections, to wait for messages with poll().
  void add_to(std::vector<pollfd>& polled) const;

  // Returns the messages received from other hosts since the last call, without waiting. For a host
  // whose connection breaks before its done message, returns a message with kind `failed`.
  std::vector<HostMessage> receive();

  void send(const HostMessage& message);  // to all other hosts

  // Call when all ranks of this host have ended. The loss of this host's connection is then no
  // failure.
  void send_done();
  // Whether this launcher may end. On the first host, which forwards messages: only when all other
  // hosts are done or lost; on the others: always.
  bool may_leave() const;

 private:
  struct Peer {
    int index;  // of the peer's host
    LineSocket socket;
    bool done = false;  // sent its done message, or was reported as lost
  };

  explicit ControlChannel(const HostTable& hosts) : hosts_(hosts) {}
  void take(Peer& peer, const std::string& line, std::vector<HostMessage>& messages);
  void send_to_all_but(int index, const std::string& line);

  HostTable hosts_;
  std::vector<Peer> peers_;
};

}  // namespace colossal::cluster
