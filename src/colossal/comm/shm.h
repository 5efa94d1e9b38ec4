// Ranks as processes: groups whose ranks are all on one host talk through shared memory, those with
// one rank a host over Gloo, others both ways.
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
