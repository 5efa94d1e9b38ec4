// Makes the world (world.h) of a rank that computes on the CPU and communicates over shared memory
// with the ranks of its host. Groups within a host use shared memory, groups with one rank per host
// use Gloo, and other groups use both (hierarchical_backend.h). connect() uses it for backend
// "shm", and for "auto" unless each rank has a GPU.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "colossal/comm/rendezvous.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// Makes this rank's world. rendezvous: has this process's global rank, and the network interface
// for Gloo. store: where groups exchange the addresses of their memory and their connections.
// hosts: host_identity() of each rank, by global rank. timeout: time limit of each call, and for
// making a group. Throws CommError if there are several hosts and `rendezvous.interface_address`
// cannot be used.
std::unique_ptr<World> shm_world(const Rendezvous& rendezvous, StorePointer store,
                                 std::vector<std::string> hosts, std::chrono::milliseconds timeout);

}  // namespace colossal::comm
