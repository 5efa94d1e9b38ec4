// Which ranks of a group share a host.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace colossal::comm {

struct Hosts {
  // `identities`: of each rank's host, in group order.
  explicit Hosts(std::span<const std::string> identities);

  int size() const { return static_cast<int>(members.size()); }
  // Returns the rank that acts for `rank` on a host: itself on its own host; elsewhere the rank
  // with the same place, counted from the first again if the host has fewer ranks.
  int agent(int rank, int on_host) const;

  std::vector<std::vector<int>> members;  // of each host, in group order; hosts by first member
  std::vector<int> host, place;           // of each rank: where in `members` it is
};

}  // namespace colossal::comm
