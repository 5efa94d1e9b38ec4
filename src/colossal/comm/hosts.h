// Which ranks of a group are on which host, and which rank acts for another rank on another host.
// HierarchicalBackend uses it to route messages. Ranks are ranks within the group.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace colossal::comm {

struct Hosts {
  // identities: host_identity() (shared_memory.h) of each rank, by rank. Ranks with equal
  // identities are on one host.
  explicit Hosts(std::span<const std::string> identities);

  int size() const { return static_cast<int>(members.size()); }  // number of hosts
  // Returns the agent of `rank` on host number `on_host`: the rank of that host that handles the
  // traffic of `rank` (hierarchical_backend.h). If `rank` is the k-th rank of its own host, counted
  // from 0, and host `on_host` has n ranks, the agent is the (k % n)-th of these n. So on its own
  // host each rank is its own agent.
  int agent(int rank, int on_host) const;

  // members[h]: the ranks of host h, ascending. Hosts are numbered in the order of their first
  // ranks.
  std::vector<std::vector<int>> members;
  // By rank: the number of the rank's host, and the rank's index in the members of that host. So
  // members[host[rank]][place[rank]] is `rank`.
  std::vector<int> host, place;
};

}  // namespace colossal::comm
