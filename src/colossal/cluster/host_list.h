// Slurm's short forms of host lists and of counts per host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::cluster {

// "host[01-03,7],login" is host01, host02, host03, host7, login; several brackets in a name
// multiply, the last running fastest. Throws ConfigError naming the list and what is wrong in it.
std::vector<std::string> expand_host_list(std::string_view list);

// "4(x2),3" is 4, 4, 3. Throws ConfigError like expand_host_list().
std::vector<int> expand_counts(std::string_view list);

}  // namespace colossal::cluster
