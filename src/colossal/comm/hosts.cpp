#include "colossal/comm/hosts.h"

#include <map>

namespace colossal::comm {

Hosts::Hosts(std::span<const std::string> identities) {
  std::map<std::string, int> known;
  for (const std::string& identity : identities) {
    const auto [found, is_new] = known.try_emplace(identity, size());
    if (is_new) members.emplace_back();
    std::vector<int>& here = members[found->second];
    here.push_back(static_cast<int>(host.size()));
    host.push_back(found->second);
    place.push_back(static_cast<int>(here.size()) - 1);
  }
}

int Hosts::agent(int rank, int on_host) const {
  const std::vector<int>& there = members[on_host];
  return there[place[rank] % there.size()];
}

}  // namespace colossal::comm
