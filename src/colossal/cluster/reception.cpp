#include "colossal/cluster/reception.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "colossal/base/log.h"
#include "colossal/cluster/host_messages.h"
#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

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

}  // namespace

Reception::Reception(HostTable hosts, int port)
    : hosts_(std::move(hosts)), listener_(bind_socket(hosts_.own_address(), port)) {
  listen_on(listener_);
}

std::vector<int> Reception::fds() const {
  std::vector<int> fds{listener_.get()};
  for (const LineSocket& guest : guests_) fds.push_back(guest.fd());
  return fds;
}

void Reception::accept_all() {
  while (FileDescriptor connection = accept_connection(listener_)) {
    const std::string from = peer_address(connection);
    if (std::ranges::find(hosts_.addresses, from) == hosts_.addresses.end()) {
      log::warn("refused a connection from {}, which is not one of the job's hosts", from);
    } else {
      guests_.emplace_back(std::move(connection));
    }
  }
}

void Reception::receive(const Admit& admit) {
  accept_all();
  for (LineSocket& guest : guests_) {
    const std::optional<std::string> line = guest.next_line();
    if (!line) continue;
    const std::optional<Hello> hello = parse_hello(*line);
    if (const std::string reason = objection(hello, hosts_); !reason.empty()) {
      log::warn("refused a launcher: {}", reason);
      guest.send(to_line(Refusal{reason}));
    } else if (!admit(hello->index, guest)) {
      // The connection of that launcher may be lost without being noticed yet.
      const std::string reason =
          fmt::format("one on {} has joined before", hosts_.names[hello->index]);
      guest.send(to_line(Refusal{reason, /*for_now=*/true}));
    }
    guest = LineSocket();
  }
  std::erase_if(guests_, [](const LineSocket& guest) { return !guest.is_open(); });
}

}  // namespace colossal::cluster
