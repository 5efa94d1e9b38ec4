// Ranks as processes of their own, for tests that kill them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "colossal/comm/group.h"

namespace colossal::test {

struct RankProcess {
  pid_t id = -1;
  int pipe = -1;

  // Waits until it has ended. What its body returned, or the message of what it threw; empty if it
  // was killed.
  std::string result() const;
};

// Forks a rank for each of `hosts`, which are shared memory within and TCP between; each runs
// `body` with a group of all on axis "dp".
std::vector<RankProcess> start_ranks(const std::vector<std::string>& hosts,
                                     const std::function<std::string(const comm::Group&)>& body);

}  // namespace colossal::test
