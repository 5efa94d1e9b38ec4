// Makes worlds (world.h) of ranks that compute on GPUs and communicate through host memory: each
// call copies its tensors from the GPU to the host, calls another world's backend there, and copies
// the results back. connect() uses it where ranks compute on GPUs without NCCL, for example because
// several ranks share one GPU.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "colossal/comm/world.h"

namespace colossal::comm {

// Makes the world of a rank that computes on `device`. host_world: this rank's world of the CPU;
// its backend sends the bytes and its ledger books them. Copies between GPU and host are not
// booked.
std::unique_ptr<World> staged_world(std::unique_ptr<World> host_world, c10::Device device);

}  // namespace colossal::comm
