#include "colossal/cluster/control_channel.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/host_messages.h"

namespace colossal::cluster {

std::string HostTable::describe(int index) const {
  const int first = index * ranks_per_host;
  return ranks_per_host == 1 ? fmt::format("host {} (rank {})", names[index], first)
                             : fmt::format("host {} (ranks {} to {})", names[index], first,
                                           first + ranks_per_host - 1);
}

void ControlChannel::add_to(std::vector<pollfd>& polled) const {
  for (const Peer& peer : peers_) {
    if (peer.socket.is_open()) polled.push_back({peer.socket.fd(), POLLIN, 0});
  }
}

std::vector<HostMessage> ControlChannel::receive() {
  std::vector<HostMessage> messages;
  for (Peer& peer : peers_) {
    while (const auto line = peer.socket.next_line()) take(peer, *line, messages);
    if (peer.done || peer.socket.is_open()) continue;
    peer.done = true;
    Failure lost{
        .who = hosts_.describe(peer.index),
        .event = "was lost",
        .text = "its launcher died, or the network to it failed (" + peer.socket.why_closed() + ")",
        .sudden = true};
    messages.push_back({HostMessage::Kind::failed, std::move(lost)});
    send_to_all_but(peer.index, to_line(messages.back()));
  }
  return messages;
}

void ControlChannel::take(Peer& peer, const std::string& line, std::vector<HostMessage>& messages) {
  if (is_done_line(line)) {
    peer.done = true;
  } else if (std::optional<HostMessage> message = parse_message(line)) {
    send_to_all_but(peer.index, line);
    messages.push_back(std::move(*message));
  } else {
    log::warn("{} sent a line that no launcher sends: {}", hosts_.describe(peer.index),
              line.substr(0, 100));
  }
}

void ControlChannel::send(const HostMessage& message) {
  send_to_all_but(-1, to_line(message));
}

void ControlChannel::send_to_all_but(int index, const std::string& line) {
  for (Peer& peer : peers_) {
    if (peer.index != index) peer.socket.send(line);
  }
}

void ControlChannel::send_done() {
  send_to_all_but(-1, done_line());
}

bool ControlChannel::may_leave() const {
  // Only the first host's launcher forwards the messages of others, so only it must stay.
  return hosts_.own_index != 0 ||
         std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.done; });
}

}  // namespace colossal::cluster
