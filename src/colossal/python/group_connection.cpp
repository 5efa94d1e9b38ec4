#include "colossal/python/group_connection.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/cluster/launch_variables.h"
#include "colossal/comm/backend.h"
#include "colossal/comm/shared_memory.h"
#include "colossal/comm/shm.h"

namespace colossal::python {
namespace {

// A process group that is made again after it was destroyed finds the keys of the first one in the
// store, if that outlives it. Each rank counts how often it has come.
comm::StorePointer store_of_this_time(const GroupMembers& members) {
  const int64_t time = members.store->add(fmt::format("times/{}", members.place), 1);
  return c10::make_intrusive<c10d::PrefixStore>(std::to_string(time), members.store);
}

std::string key_of(int place) {
  return fmt::format("came/{}", place);
}

std::string describe(const GroupMembers& members, int place) {
  const std::string rank = fmt::format("rank {}", place);
  if (members.ranks[place] == place) return rank;
  return fmt::format("{} (global {})", rank, members.ranks[place]);
}

// The variables of this process without the launcher's socket, which is for another store.
const char* environment_without_socket(const char* name) {
  return std::string_view(name) == cluster::kStoreVariable ? nullptr
                                                           : cluster::process_environment(name);
}

// The address of this host for connections from other hosts.
std::string address_between_hosts() {
  if (const auto launch = cluster::read_launch_environment(environment_without_socket)) {
    return launch->rendezvous.interface_address;
  }
  if (const char* address = cluster::process_environment(cluster::kInterfaceVariable)) {
    return address;
  }
  throw ConfigError(
      fmt::format("the ranks of this process group are on several hosts, and no launcher says at "
                  "which address this host is reached; start the ranks with torchrun, or set {} to "
                  "this host's address",
                  cluster::kInterfaceVariable));
}

// Returns a host for each global rank up to the highest one of `places`. Ranks that are no members
// count as being on the first member's host, so that they ask for no connection.
std::vector<std::string> hosts_by_rank(const GroupMembers& members,
                                       const std::vector<int>& places) {
  std::vector<std::string> hosts(*std::ranges::max_element(members.ranks) + 1,
                                 members.hosts[places[0]]);
  for (int place : places) hosts[members.ranks[place]] = members.hosts[place];
  return hosts;
}

// Waits for the keys of the members at `places`, with pauses that grow.
void wait_for(const std::vector<int>& places, c10d::Store& store, const GroupMembers& members,
              const std::atomic<bool>& abandoned) {
  constexpr auto kLongestPause = std::chrono::milliseconds(16);
  const comm::Deadline deadline(members.timeout);
  std::vector<int> missing = places;
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, kLongestPause)) {
    std::erase_if(missing, [&](int place) { return store.check({key_of(place)}); });
    if (missing.empty()) return;
    std::string reason;
    if (abandoned) reason = "it was abandoned";
    if (deadline.passed()) reason = "timed out after " + exact_duration(members.timeout);
    if (!reason.empty()) {
      std::string names;
      for (int place : missing) names += (names.empty() ? "" : ", ") + describe(members, place);
      throw CommError(fmt::format("{} of {} of {}: {}: {} did not come",
                                  describe(members, members.place), members.ranks.size(),
                                  members.name, reason, names));
    }
    std::this_thread::sleep_for(pause);
  }
}

// Calls body(); throws CommError if the store fails.
template <typename Body>
void with_store(const GroupMembers& members, const Body& body) {
  try {
    body();
  } catch (const c10::Error& error) {
    throw CommError(fmt::format("{} of {}: the store failed: {}", describe(members, members.place),
                                members.name, comm::reason_of(error)));
  }
}

std::vector<int> all_places(const GroupMembers& members) {
  std::vector<int> places(members.ranks.size());
  std::iota(places.begin(), places.end(), 0);
  return places;
}

}  // namespace

void meet(GroupMembers& members) {
  with_store(members, [&] {
    members.store = store_of_this_time(members);
    members.store->set(key_of(members.place), comm::host_identity());
    const std::vector<int> places = all_places(members);
    wait_for(places, *members.store, members, /*abandoned=*/false);
    for (int place : places) members.hosts.push_back(members.store->get_to_str(key_of(place)));
  });
}

GroupConnection connect(const GroupMembers& members, const std::string& key,
                        const std::vector<int>& places, const std::atomic<bool>& abandoned) {
  auto store = c10::make_intrusive<c10d::PrefixStore>(key, members.store);
  with_store(members, [&] {
    store->set(key_of(members.place), "1");
    wait_for(places, *store, members, abandoned);
  });
  std::vector<std::string> hosts = hosts_by_rank(members, places);
  comm::Rendezvous meeting{.rank = members.ranks[members.place],
                           .size = static_cast<int>(hosts.size())};
  const bool one_host = std::ranges::adjacent_find(hosts, std::not_equal_to<>()) == hosts.end();
  if (!one_host) meeting.interface_address = address_between_hosts();
  std::vector<int> ranks;
  for (int place : places) ranks.push_back(members.ranks[place]);
  GroupConnection connection;
  connection.world = comm::shm_world(meeting, std::move(store), std::move(hosts), members.timeout);
  connection.group = connection.world->group(members.name, ranks);
  return connection;
}

}  // namespace colossal::python
