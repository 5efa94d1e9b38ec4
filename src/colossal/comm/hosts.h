// The hosts of a group's ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace colossal::comm {

struct Hosts {
  // identities: the host_identity() of each rank, in group order.
  explicit Hosts(std::span<const std::string> identities);

  int size() const { return static_cast<int>(members.size()); }
  // Returns the agent of `rank` on host `on_host`, the rank that handles traffic of `rank` there
  // (hierarchical_backend.h): on its own host `rank` itself; on another host the rank whose place
  // is the place of `rank`, modulo the number of ranks there.
  int agent(int rank, int on_host) const;

  // Per host, in group order; hosts are in the order of their first members.
  std::vector<std::vector<int>> members;
  std::vector<int> host, place;  // per rank: its indices in `members`
};

}  // namespace colossal::comm
