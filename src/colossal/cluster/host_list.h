// Parses Slurm's abbreviated lists of hosts and of task counts per host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace colossal::cluster {

// Expands "host[01-03,7],login" to host01, host02, host03, host7, login. Several brackets in one
// name give all combinations; the last bracket varies fastest. Throws ConfigError, quoting the list
// and naming the problem.
std::vector<std::string> expand_host_list(std::string_view list);

// Expands "4(x2),3" to 4, 4, 3. Throws ConfigError as expand_host_list() does.
std::vector<int> expand_counts(std::string_view list);

}  // namespace colossal::cluster
