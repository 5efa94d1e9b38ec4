// Runs file operations on the ranks of a group. If the operation of one rank fails, all ranks
// throw, so that none waits for the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// Runs `work` on each rank of the group, and returns the results of all ranks, in rank order. If
// `work` throws on a rank, all ranks throw when all have run `work`: ConfigError if all failed
// ranks threw ConfigError, otherwise IoError. The message gives each reason and the ranks with this
// reason; a ConfigError with a single reason names no ranks. But if `work` throws CommError, the
// rank rethrows it at once; the other ranks, which wait for this rank, throw CommError, too, at the
// latest at the timeout of the group. Collective.
std::vector<std::string> all_or_none(const comm::Group& group,
                                     const std::function<std::string()>& work);

// Runs `work` on rank 0 of the group and returns its result on all ranks. If `work` throws, all
// ranks throw, as in all_or_none(). Collective.
std::string on_first_rank(const comm::Group& group, const std::function<std::string()>& work);

}  // namespace colossal::checkpoint
