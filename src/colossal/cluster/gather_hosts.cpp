// How the launchers of a job find each other; see control_channel.h.
#include <fmt/ranges.h>
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

}  // namespace

std::vector<std::string> ControlChannel::missing_hosts() const {
  std::vector<std::string> missing;
  const std::vector<int> here = present();
  for (int i = 0; i < hosts_.size(); ++i) {
    if (std::ranges::find(here, i) == here.end()) missing.push_back(hosts_.names[i]);
  }
  return missing;
}

std::optional<ControlChannel> ControlChannel::gather(const HostTable& hosts, int port, bool elastic,
                                                     int min_hosts, Deadline deadline,
                                                     SignalQueue& signals) {
  ControlChannel channel(hosts);
  channel.reception_ = std::make_unique<Reception>(hosts, port);
  WaitingNotice notice;
  while (static_cast<int>(channel.present().size()) < hosts.size()) {
    wait_for(channel.reception_->fds(), signals);
    if (any_stop_signal(signals.take())) return std::nullopt;
    channel.receive();
    const int here = static_cast<int>(channel.present().size());
    const auto missing = [&] {
      return fmt::format("{}", fmt::join(channel.missing_hosts(), ", "));
    };
    notice.update([&] {
      return fmt::format("{} ({} of {} launchers are here, at {} port {})", missing(), here,
                         hosts.size(), hosts.own_address(), port);
    });
    if (here == hosts.size() || !passed(deadline)) continue;
    if (here >= min_hosts) {
      log::info("starting without host {}, which may join later", missing());
      break;
    }
    throw CommError(
        fmt::format("no launcher came from host {}; start the same command there, and "
                    "see that it can reach {} port {}",
                    missing(), hosts.own_address(), port));
  }
  if (!elastic) channel.reception_.reset();
  return channel;
}

std::optional<ControlChannel> ControlChannel::join(const HostTable& hosts, int port, bool elastic,
                                                   Order* order, Deadline deadline,
                                                   SignalQueue& signals) {
  const std::string hello = to_line(Hello{hosts.own_index, hosts.names, hosts.ranks_per_host});
  ControlChannel channel(hosts);
  LineSocket socket;
  WaitingNotice notice;
  Deadline next_attempt = std::chrono::steady_clock::now();
  while (true) {
    if (!socket.is_open() && passed(next_attempt)) {
      if (auto connection = try_connect(hosts.own_address(), hosts.addresses[0], port)) {
        socket = LineSocket(std::move(connection));
        socket.send(hello);
      }
    }
    wait_for(socket.is_open() ? std::vector{socket.fd()} : std::vector<int>{}, signals);
    if (any_stop_signal(signals.take())) return std::nullopt;
    while (const auto line = socket.next_line()) {
      if (const auto refusal = parse_refusal(*line)) {
        if (elastic && refusal->for_now) {
          socket = LineSocket();
          next_attempt = std::chrono::steady_clock::now() + std::chrono::seconds(1);
          break;
        }
        throw ConfigError(fmt::format("the launcher on {} refused this one: {}", hosts.names[0],
                                      refusal->reason));
      }
      std::vector<HostMessage> messages;
      Peer first{.index = 0};
      channel.take(first, *line, messages);
      if (channel.orders_.empty()) continue;
      channel.peers_.push_back(
          {.index = 0, .socket = std::move(socket), .member = true, .done = false});
      *order = *channel.next_order(signals);
      return channel;
    }
    notice.update([&] {
      return socket.is_open()
                 ? fmt::format("other launchers; the one on {} is here", hosts.names[0])
                 : fmt::format("the launcher on {} ({} port {})", hosts.names[0],
                               hosts.addresses[0], port);
    });
    if (!passed(deadline) || (elastic && socket.is_open())) continue;
    throw CommError(
        fmt::format("the job was not started by the launcher on host {}, {} port {}; "
                    "start the same command on all hosts",
                    hosts.names[0], hosts.addresses[0], port));
  }
}

}  // namespace colossal::cluster
