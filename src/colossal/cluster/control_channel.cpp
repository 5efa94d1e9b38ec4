#include "colossal/cluster/control_channel.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/host_messages.h"
#include "colossal/cluster/stop_request.h"

namespace colossal::cluster {
namespace {

std::optional<Order> parse_order(const std::string& line) {
  if (auto start = parse_start(line)) return Order{.start = std::move(start)};
  if (const auto exit_code = parse_end(line)) return Order{.start = {}, .exit_code = *exit_code};
  return std::nullopt;
}

}  // namespace

std::string ControlChannel::describe(int index) const {
  const auto member = std::ranges::find(members_, index);
  if (member == members_.end()) return "host " + hosts_.names[index];
  return hosts_.of_members(members_).describe(static_cast<int>(member - members_.begin()));
}

void ControlChannel::add_to(std::vector<pollfd>& polled) const {
  for (const Peer& peer : peers_) {
    if (peer.socket.is_open()) polled.push_back({peer.socket.fd(), POLLIN, 0});
  }
  if (!reception_) return;
  for (const int fd : reception_->fds()) polled.push_back({fd, POLLIN, 0});
}

void ControlChannel::let_join() {
  if (!reception_) return;
  reception_->receive([&](int index, LineSocket& connection) {
    const auto is_of_host = [index](const Peer& peer) { return peer.index == index; };
    const auto before = std::ranges::find_if(peers_, is_of_host);
    if (before != peers_.end() && (before->socket.is_open() || !before->done)) return false;
    std::erase_if(peers_, is_of_host);
    peers_.push_back({.index = index, .socket = std::move(connection)});
    return true;
  });
}

std::vector<HostMessage> ControlChannel::receive() {
  std::vector<HostMessage> messages = std::exchange(held_, {});
  for (Peer& peer : peers_) {
    while (const auto line = peer.socket.next_line()) take(peer, *line, messages);
    if (peer.done || peer.socket.is_open()) continue;
    peer.done = true;
    Failure lost{
        .who = describe(peer.index),
        .event = "was lost",
        .text = "its launcher died, or the network to it failed (" + peer.socket.why_closed() + ")",
        .sudden = true,
        .host = hosts_.names[peer.index]};
    HostMessage message{HostMessage::Kind::failed, std::move(lost), newest_job()};
    send_to_all_but(peer.index, to_line(message));
    (orders_.empty() ? messages : held_).push_back(std::move(message));
  }
  let_join();
  return messages;
}

void ControlChannel::take(Peer& peer, const std::string& line, std::vector<HostMessage>& messages) {
  if (const std::optional<std::string> done = parse_done(line)) {
    if (*done == newest_job()) peer.done = true;
  } else if (std::optional<HostMessage> message = parse_message(line)) {
    // A message about ranks that have been replaced since matters no more.
    if (!message->job.empty() && message->job != newest_job()) return;
    if (message->kind == HostMessage::Kind::leave) {
      peer.leaving = true;
    } else {
      send_to_all_but(peer.index, line);
    }
    (orders_.empty() ? messages : held_).push_back(std::move(*message));
  } else if (auto order = parse_order(line)) {
    if (order->start) {
      for (Peer& each : peers_) each.done = false;
    }
    orders_.push_back(std::move(*order));
  } else {
    log::warn("{} sent a line that no launcher sends: {}", describe(peer.index),
              line.substr(0, 100));
  }
}

// Messages that follow an order on its way are already about its ranks.
const std::string& ControlChannel::newest_job() const {
  for (const Order& order : orders_ | std::views::reverse) {
    if (order.start) return order.start->job;
  }
  return job_;
}

void ControlChannel::send(HostMessage message) {
  message.job = job_;
  send_to_all_but(-1, to_line(message));
}

void ControlChannel::send_to_all_but(int index, const std::string& line) {
  for (Peer& peer : peers_) {
    if (peer.member && peer.index != index) peer.socket.send(line);
  }
}

void ControlChannel::send_done() {
  send_to_all_but(-1, done_line(job_));
}

bool ControlChannel::may_leave() const {
  // Only the first host's launcher forwards the messages of others, so only it must stay.
  return hosts_.own_index != 0 ||
         std::ranges::all_of(peers_, [](const Peer& peer) { return peer.done; });
}

void ControlChannel::start(const JobStart& start) {
  members_ = start.members;
  job_ = start.job;
  std::erase_if(peers_, [](Peer& peer) {
    if (peer.leaving) peer.socket.send(end_line(kStoppedExitCode));
    return peer.leaving || !peer.socket.is_open();
  });
  for (Peer& peer : peers_) {
    peer.joined = false;
    peer.member = std::ranges::find(members_, peer.index) != members_.end();
    peer.done = !peer.member;
  }
  send_to_all_but(-1, to_line(start));
}

void ControlChannel::end(int exit_code) {
  for (Peer& peer : peers_) peer.socket.send(end_line(exit_code));
}

std::vector<int> ControlChannel::present() const {
  std::vector<int> indices{hosts_.own_index};
  for (const Peer& peer : peers_) {
    if (peer.socket.is_open() && !peer.leaving) indices.push_back(peer.index);
  }
  std::ranges::sort(indices);
  return indices;
}

bool ControlChannel::membership_changes() const {
  return std::ranges::any_of(peers_, [](const Peer& peer) {
    return peer.socket.is_open() && (peer.leaving || peer.joined);
  });
}

bool ControlChannel::has_leaving_host() const {
  return std::ranges::any_of(
      peers_, [](const Peer& peer) { return peer.socket.is_open() && peer.leaving; });
}

std::optional<Order> ControlChannel::next_order(SignalQueue& signals) {
  StopRequests requests;
  while (true) {
    if (!orders_.empty()) {
      Order order = std::move(orders_.front());
      orders_.erase(orders_.begin());
      if (order.start) {
        members_ = order.start->members;
        job_ = order.start->job;
      }
      return order;
    }
    if (std::ranges::none_of(peers_, [](const Peer& p) { return p.socket.is_open(); })) {
      return std::nullopt;
    }
    std::vector<pollfd> polled{{signals.fd(), POLLIN, 0}};
    add_to(polled);
    poll(polled.data(), polled.size(), -1);
    for (const int signal : signals.take()) {
      if (signal == SIGTERM || signal == SIGUSR1) {
        send({HostMessage::Kind::leave, {}});
        return Order{.start = {}, .exit_code = kStoppedExitCode};
      }
      if (signal != SIGINT) continue;
      const StopRequests::Meaning meaning = requests.take(signal);
      if (meaning == StopRequests::Meaning::first) send({HostMessage::Kind::stop, {}});
      if (meaning == StopRequests::Meaning::insists) {
        return Order{.start = {}, .exit_code = kStoppedExitCode};
      }
    }
    // Messages about the ranks that have ended matter no more.
    for (Peer& peer : peers_) peer.done = true;
    receive();
  }
}

}  // namespace colossal::cluster
