// A rank's stages of the pipeline in a forward pass, and the activations between those of two
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/comm/group.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

// From what the stage before gives, undefined at the first one, to what the next one takes.
using RunStage = std::function<at::Tensor(int stage, const at::Tensor& x)>;

// Runs the stages that are here, in order. ranks: null where this rank has all stages, which are
// one. Law: at each border between two ranks 32 bytes and the activation.
void run_stages(const ParallelContext* ranks, const RunStage& run);

// An activation of any type and of at most 3 dims, to and from another rank of a group. Law: 32
// bytes and the activation.
void send_activation(const at::Tensor& x, int to, const comm::Group& group);
at::Tensor receive_activation(int from, const comm::Group& group);

}  // namespace colossal::serve
