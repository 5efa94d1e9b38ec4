// Expands Slurm's abbreviated lists of hosts and of task counts per host, for ranks that srun
// started.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::cluster {

// Expands "host[01-03,7],login" to host01, host02, host03, host7, login. Several brackets in one
// name give all combinations; the last bracket varies fastest. Throws ConfigError if `list` is not
// such a list or has more than 131072 hosts.
std::vector<std::string> expand_host_list(std::string_view list);

// Expands "4(x2),3" to 4, 4, 3. Throws ConfigError if `list` is not such a list.
std::vector<int> expand_counts(std::string_view list);

}  // namespace colossal::cluster
