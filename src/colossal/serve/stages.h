// A rank's stages of the pipeline in forward passes, and the activations between those of two
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/comm/group.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

// From what the stage before gives, undefined at the first one, to what the next one takes.
using RunStage = std::function<at::Tensor(int stage, const at::Tensor& x)>;

class Stages {
 public:
  // ranks: null where this rank has all stages, which are one.
  explicit Stages(const ParallelContext* ranks) : ranks_(ranks) {}

  // A pass: runs the stages that are here, in order. It does not wait for the next rank, which may
  // still work on the pass before this one, but on no earlier one. Law: at each border between two
  // ranks 32 bytes and the activation.
  void run(const RunStage& run);

 private:
  const ParallelContext* ranks_;
  comm::Work sent_;  // of the pass before
};

// An activation of any type and of at most 3 dims, to and from another rank of a group. Sending
// returns at once. Law: 32 bytes and the activation.
comm::Work send_activation(const at::Tensor& x, int to, const comm::Group& group);
at::Tensor receive_activation(int from, const comm::Group& group);

}  // namespace colossal::serve
