// File work of all ranks that succeeds or fails for all of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// Runs `work` on each rank of the group; returns what each returned, in rank order. If any of them
// threw, every rank throws IoError naming the ranks and their reasons, ranks of one reason
// together; or ConfigError, if all that threw threw that. Collective.
std::vector<std::string> all_or_none(const comm::Group& group,
                                     const std::function<std::string()>& work);

// The same for what only rank 0 of the group does; returns what it returned.
std::string on_first_rank(const comm::Group& group, const std::function<std::string()>& work);

}  // namespace colossal::checkpoint
