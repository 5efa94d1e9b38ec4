// Makes the world (world.h) of a rank that computes on a GPU and communicates over NCCL. connect()
// uses it for backend "nccl", and for "auto" if each rank has a GPU. NCCL itself is found at run time
// (nccl_library.h).
#pragma once

#include <chrono>
#include <memory>

#include "colossal/comm/rendezvous.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// Makes this rank's world. store: where groups exchange the addresses of their connections. device:
// index of this rank's GPU among the GPUs that this process can use. timeout: time limit of each
// call of a group. Throws ConfigError if there is no such GPU, or if NCCL is not
// found. Throws
// CommError if `rendezvous.interface_address`, which groups that communicate through host memory
// use, cannot be used.
std::unique_ptr<World> nccl_world(const Rendezvous& rendezvous, StorePointer store, int device,
                                  std::chrono::milliseconds timeout);

}  // namespace colossal::comm
