// Makes worlds whose ranks are processes. Groups on one host use shared memory, groups with one
// rank per host use Gloo, and other groups use both (hierarchical_backend.h).
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "colossal/comm/rendezvous.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// hosts: the host_identity() of each rank.
std::unique_ptr<World> shm_world(const Rendezvous& rendezvous, StorePointer store,
                                 std::vector<std::string> hosts, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
