// How the ranks of a torch.distributed process group find each other, and the comm::Groups that
// they make. Places are ranks within the process group; errors name ranks by their global ranks,
// too.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::python {

// The ranks of a process group, as one of them sees them.
struct GroupMembers {
  comm::StorePointer store;           // no other process group that exists uses its keys
  std::chrono::milliseconds timeout;  // time limit of each call, and for ranks to come
  std::string name;                   // for errors, such as "process group 0"
  std::vector<int> ranks;             // global ranks, by place
  int place = 0;                      // of this rank
  std::vector<std::string> hosts;     // host_identity() (shared_memory.h), by place
};

// Tells the other members this rank's host and waits for theirs, which it puts in members.hosts.
// From then on, members.store has keys for this time only: a process group may be made again after
// it was destroyed, which all its ranks do as often. Collective. Throws CommError with the names of
// the ranks that do not come within the timeout.
void meet(GroupMembers& members);

// A group, and the world that it belongs to.
struct GroupConnection {
  std::unique_ptr<comm::World> world;
  comm::Group group;
};

// Makes a group of the members at `places`, in this order, which must contain this rank: over
// shared memory on one host, otherwise over TCP between hosts. Collective for these members. key:
// equal on all of them, and used once. abandoned: while the call waits for members, another thread
// may set it; then it throws CommError. Throws CommError, too, with the names of the members that
// do not come within the timeout, and ConfigError if the members are on several hosts and no
// address for connections between hosts is known.
GroupConnection connect(const GroupMembers& members, const std::string& key,
                        const std::vector<int>& places, const std::atomic<bool>& abandoned);

}  // namespace colossal::python
