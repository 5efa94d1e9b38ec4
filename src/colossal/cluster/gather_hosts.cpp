// How the launchers of a job find each other; see control_channel.h.
#include <poll.h>

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/control_channel.h"
#include "colossal/cluster/host_messages.h"
#include "colossal/cluster/socket.h"
#include "colossal/cluster/stop_request.h"

namespace colossal::cluster {
namespace {

constexpr std::chrono::milliseconds kRetry(100);

// Waits until one of `fds` or `signals` can be read, or kRetry has passed.
void wait_for(std::vector<int> fds, const SignalQueue& signals) {
  fds.push_back(signals.fd());
  std::vector<pollfd> polled;
  for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
  poll(polled.data(), polled.size(), static_cast<int>(kRetry.count()));
}

// Logs what this launcher waits for: after 3 seconds, and then less and less often.
class WaitingNotice {
 public:
  template <class Describe>
  void update(Describe describe) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) return;
    log::info("waiting for {}", describe());
    next_ = now + pause_;
    pause_ *= 2;
  }

 private:
  std::chrono::seconds pause_{15};
  ControlChannel::Deadline next_ = std::chrono::steady_clock::now() + std::chrono::seconds(3);
};

bool passed(ControlChannel::Deadline deadline) {
  return std::chrono::steady_clock::now() > deadline;
}

// Returns why a launcher that has sent `hello` cannot belong to this job, or "".
std::string objection(const std::optional<Hello>& hello, const HostTable& hosts) {
  if (!hello) return "it does not use the protocol of this version";
  if (hello->hosts != hosts.names || hello->ranks_per_host != hosts.ranks_per_host) {
    return fmt::format(
        "it was told {} ranks on each of --hosts={}, but {} was told {} on each of "
        "--hosts={}; give all the same",
        hello->ranks_per_host, fmt::join(hello->hosts, ","), hosts.names[0], hosts.ranks_per_host,
        fmt::join(hosts.names, ","));
  }
  if (hello->index <= 0 || hello->index >= hosts.size()) {
    return fmt::format("it says that it is host {} of {}", hello->index, hosts.size());
  }
  return "";
}

// Connections to the first host's launcher that have not said yet which host they come from.
class Reception {
 public:
  Reception(const HostTable& hosts, int port)
      : hosts_(hosts), listener_(bind_socket(hosts.own_address(), port)) {
    listen_on(listener_);
  }

  std::vector<int> fds() const {
    std::vector<int> fds{listener_.get()};
    for (const LineSocket& guest : guests_) fds.push_back(guest.fd());
    return fds;
  }

  void accept_all() {
    while (FileDescriptor connection = accept_connection(listener_)) {
      const std::string from = peer_address(connection);
      const auto& known = hosts_.addresses;
      if (std::find(known.begin(), known.end(), from) == known.end()) {
        log::warn("refused a connection from {}, which is not one of the job's hosts", from);
      } else {
        guests_.emplace_back(std::move(connection));
      }
    }
  }

  // Calls admit(index of the host, connection) for each connection that has said where it comes
  // from. A launcher that cannot belong to the job is refused: its mistake must not end the job.
  template <class Admit>
  void greet(Admit admit) {
    for (LineSocket& guest : guests_) {
      const std::optional<std::string> line = guest.next_line();
      if (!line) continue;
      const std::optional<Hello> hello = parse_hello(*line);
      if (const std::string reason = objection(hello, hosts_); !reason.empty()) {
        log::warn("refused a launcher: {}", reason);
        guest.send(refusal_line(reason));
        guest = LineSocket();
      } else {
        admit(hello->index, std::exchange(guest, LineSocket()));
      }
    }
    std::erase_if(guests_, [](const LineSocket& guest) { return !guest.is_open(); });
  }

 private:
  const HostTable& hosts_;
  FileDescriptor listener_;
  std::vector<LineSocket> guests_;
};

}  // namespace

std::optional<ControlChannel> ControlChannel::gather(const HostTable& hosts, int port,
                                                     const JobStart& start, Deadline deadline,
                                                     SignalQueue& signals) {
  ControlChannel channel(hosts);
  std::vector<Peer>& peers = channel.peers_;
  const auto is_missing = [&](int index) {
    return std::none_of(peers.begin(), peers.end(),
                        [index](const Peer& peer) { return peer.index == index; });
  };
  const auto missing_names = [&] {
    std::vector<std::string> missing;
    for (int i = 1; i < hosts.size(); ++i) {
      if (is_missing(i)) missing.push_back(hosts.names[i]);
    }
    return fmt::format("{}", fmt::join(missing, ", "));
  };
  Reception reception(hosts, port);
  WaitingNotice notice;
  while (static_cast<int>(peers.size()) + 1 < hosts.size()) {
    wait_for(reception.fds(), signals);
    if (any_stop_signal(signals.take())) return std::nullopt;
    reception.accept_all();
    reception.greet([&](int index, LineSocket socket) {
      if (is_missing(index)) {
        peers.push_back({index, std::move(socket), false});
      } else {
        socket.send(refusal_line(fmt::format("one on {} has joined before", hosts.names[index])));
      }
    });
    notice.update([&] {
      return fmt::format("{} ({} of {} launchers are here, at {} port {})", missing_names(),
                         peers.size() + 1, hosts.size(), hosts.own_address(), port);
    });
    if (!passed(deadline)) continue;
    throw CommError(
        fmt::format("no launcher came from host {}; start the same command there, and "
                    "see that it can reach {} port {}",
                    missing_names(), hosts.own_address(), port));
  }
  channel.send_to_all_but(-1, to_line(start));
  return channel;
}

std::optional<ControlChannel> ControlChannel::join(const HostTable& hosts, int port,
                                                   JobStart* start, Deadline deadline,
                                                   SignalQueue& signals) {
  const std::string hello = to_line(Hello{hosts.own_index, hosts.names, hosts.ranks_per_host});
  LineSocket socket;
  WaitingNotice notice;
  while (true) {
    if (!socket.is_open()) {
      if (auto connection = try_connect(hosts.own_address(), hosts.addresses[0], port)) {
        socket = LineSocket(std::move(connection));
        socket.send(hello);
      }
    }
    wait_for(socket.is_open() ? std::vector{socket.fd()} : std::vector<int>{}, signals);
    if (any_stop_signal(signals.take())) return std::nullopt;
    while (const auto line = socket.next_line()) {
      if (const auto refusal = parse_refusal(*line)) {
        throw ConfigError(
            fmt::format("the launcher on {} refused this one: {}", hosts.names[0], *refusal));
      }
      if (const auto told = parse_start(*line)) {
        *start = *told;
        ControlChannel channel(hosts);
        channel.peers_.push_back({0, std::move(socket), false});
        return channel;
      }
    }
    notice.update([&] {
      return socket.is_open()
                 ? fmt::format("other launchers; the one on {} is here", hosts.names[0])
                 : fmt::format("the launcher on {} ({} port {})", hosts.names[0],
                               hosts.addresses[0], port);
    });
    if (passed(deadline)) {
      throw CommError(
          fmt::format("the job was not started by the launcher on host {}, {} port {}; "
                      "start the same command on all hosts",
                      hosts.names[0], hosts.addresses[0], port));
    }
  }
}

}  // namespace colossal::cluster
