// Joins the launchers of one job on several hosts: each has a TCP connection to the one on the
// first host, which passes messages on. Through it all of them start together, learn where the
// store is, name a rank that died anywhere, and stop together.
//
// Messages are lines of JSON. A connection is accepted only from an address of a listed host; like
// all else between ranks it is neither encrypted nor proof against somebody on these hosts.
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

// The hosts of a job; each has the same number of ranks, in the order of the list.
struct HostTable {
  std::vector<std::string> names = {};      // as the user gave them
  std::vector<std::string> addresses = {};  // numeric, one each
  int ranks_per_host = 1;
  int own_index = 0;

  int size() const { return static_cast<int>(names.size()); }
  const std::string& own_address() const { return addresses[own_index]; }
  std::string describe(int index) const;  // "host node7 (ranks 4 to 7)"
};

// What the first host's launcher tells the others when all have arrived.
struct JobStart {
  int store_port = 0;
  std::string job;  // its name, see kJobVariable
};

struct HostMessage {
  enum class Kind { failed, stop, kill };
  Kind kind;
  Failure failure = {};  // of kind `failed`
};

class ControlChannel {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // A job on one host: nobody to talk to.
  ControlChannel() = default;

  // On the first host: waits at own_address():port for all others, then tells them `start`.
  // On another one: connects to the first host and waits to be told. Both throw ConfigError when a
  // launcher's hosts or ranks differ from the first one's, CommError naming who is missing when the
  // deadline passes, and return none when one of `signals` asks to stop.
  static std::optional<ControlChannel> gather(const HostTable& hosts, int port,
                                              const JobStart& start, Deadline deadline,
                                              SignalQueue& signals);
  static std::optional<ControlChannel> join(const HostTable& hosts, int port, JobStart* start,
                                            Deadline deadline, SignalQueue& signals);

  void add_to(std::vector<pollfd>& polled) const;

  // Returns the messages of the others since the last call. A host whose connection broke before it
  // said that it was done counts as a failure.
  std::vector<HostMessage> receive();

  void send(const HostMessage& message);  // to all other hosts

  // This host's ranks have all ended: the loss of its connection means nothing from now on.
  void send_done();
  // Whether all others that pass their messages through here are done, so that this one may end.
  bool may_leave() const;

 private:
  struct Peer {
    int index;  // of its host
    LineSocket socket;
    bool done = false;  // said so, or was reported as lost
  };

  explicit ControlChannel(const HostTable& hosts) : hosts_(hosts) {}
  void take(Peer& peer, const std::string& line, std::vector<HostMessage>& messages);
  void send_to_all_but(int index, const std::string& line);

  HostTable hosts_;
  std::vector<Peer> peers_;
};

}  // namespace colossal::cluster
