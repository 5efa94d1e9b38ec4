// Makes groups of GPUs. nccl.cpp is built with -DCOLOSSAL_CUDA=ON, no_nccl.cpp without.
#pragma once

#include <chrono>
#include <memory>

#include "colossal/comm/rendezvous.h"
#include "colossal/comm/store.h"
#include "colossal/comm/world.h"

namespace colossal::comm {

// `device`: the GPU of this rank. Throws ConfigError where NCCL is not built.
std::unique_ptr<World> nccl_world(const Rendezvous& rendezvous, StorePointer store, int device,
                                  std::chrono::milliseconds timeout);

}  // namespace colossal::comm
