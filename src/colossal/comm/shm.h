// Makes worlds of ranks that are processes. A group on one host uses shared memory, a group with
// one rank a host uses Gloo, and other groups use both.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "colossal/comm/rendezvous.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// `hosts`: each rank's host_identity().
std::unique_ptr<World> shm_world(const Rendezvous& rendezvous, StorePointer store,
                                 std::vector<std::string> hosts, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
