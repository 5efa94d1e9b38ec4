// Makes groups of GPUs. nccl.cpp is compiled with -DCOLOSSAL_CUDA=ON, no_nccl.cpp otherwise.
#pragma once

#include <chrono>
#include <memory>

#include "colossal/comm/rendezvous.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// device: index of this rank's GPU. Throws ConfigError if this build has no NCCL.
std::unique_ptr<World> nccl_world(const Rendezvous& rendezvous, StorePointer store, int device,
                                  std::chrono::milliseconds timeout);

}  // namespace colossal::comm
