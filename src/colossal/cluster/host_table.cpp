#include "colossal/cluster/host_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace colossal::cluster {

std::string HostTable::describe(int index) const {
  const int first = index * ranks_per_host;
  return ranks_per_host == 1 ? fmt::format("host {} (rank {})", names[index], first)
                             : fmt::format("host {} (ranks {} to {})", names[index], first,
                                           first + ranks_per_host - 1);
}

HostTable HostTable::of_members(const std::vector<int>& members) const {
  HostTable table{.ranks_per_host = ranks_per_host};
  for (const int member : members) {
    table.names.push_back(names.at(member));
    table.addresses.push_back(addresses.at(member));
  }
  table.own_index = static_cast<int>(std::ranges::find(members, own_index) - members.begin());
  return table;
}

}  // namespace colossal::cluster
