// The hosts of a job on several hosts.
#pragma once

#include <string>
#include <vector>

namespace colossal::cluster {

// All hosts have the same number of ranks; host i has the ranks from i * ranks_per_host.
struct HostTable {
  std::vector<std::string> names = {};      // host names or addresses, as the user gave them
  std::vector<std::string> addresses = {};  // numeric IP addresses, one for each name
  int ranks_per_host = 1;
  int own_index = 0;  // of this machine, in `names`

  int size() const { return static_cast<int>(names.size()); }  // number of hosts
  const std::string& own_address() const { return addresses[own_index]; }
  std::string describe(int index) const;  // "host node7 (ranks 4 to 7)"
  // Returns the table of some of the hosts. members: their indices, in ascending order, with
  // own_index among them.
  HostTable of_members(const std::vector<int>& members) const;
};

}  // namespace colossal::cluster
