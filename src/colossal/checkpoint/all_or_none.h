// Runs file operations on the ranks of a group. If one fails on any rank, all ranks throw.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// Runs `work` on each rank of the group, and returns the results of all ranks, in rank order. If
// `work` threw on any rank, every rank throws: ConfigError if all failed ranks threw ConfigError,
// else IoError. The message has each reason with the ranks that failed for it. A CommError is
// thrown on, at once and only on its rank. Collective.
std::vector<std::string> all_or_none(const comm::Group& group,
                                     const std::function<std::string()>& work);

// Runs `work` on rank 0 of the group and returns its result on all ranks. Throws as all_or_none()
// does. Collective.
std::string on_first_rank(const comm::Group& group, const std::function<std::string()>& work);

}  // namespace colossal::checkpoint
