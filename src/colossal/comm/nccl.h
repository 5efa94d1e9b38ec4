// Makes the world (world.h) of a rank that computes on a GPU and communicates over NCCL. connect()
// uses it for backend "nccl", and for "auto" if each rank has a GPU. NCCL itself is found at run
// time (nccl_library.h).
#pragma once

#include <chrono>
#include <memory>

#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// Makes this rank's world. host_world: its world of the CPU, for groups of tensors in host memory
// (World::host_group()); its ledger books all groups. store: where the ranks meet and tell each
// other of failures. device: index of this rank's GPU among the GPUs that this process can use.
// timeout: time limit of each call of a group. Throws ConfigError if there is no such GPU, or if
// NCCL is not found.
std::unique_ptr<World> nccl_world(std::unique_ptr<World> host_world, StorePointer store, int device,
                                  std::chrono::milliseconds timeout);

}  // namespace colossal::comm
