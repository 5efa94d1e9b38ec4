// Runs a rank's pipeline stages in forward passes, and sends activations between ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/comm/group.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

// Computes one stage. x: output of the stage before; undefined for the first stage. Returns the
// input of the next stage.
using RunStage = std::function<at::Tensor(int stage, const at::Tensor& x)>;

class Stages {
 public:
  // ranks: null if this rank holds the only stage.
  explicit Stages(const ParallelContext* ranks) : ranks_(ranks) {}

  // Runs this rank's stages of one forward pass, in order. Waits until the activation of the
  // previous pass has been sent, but not until the next rank has received the activation of this
  // pass. Law: at each border between two ranks 32 bytes and the activation.
  void run(const RunStage& run);

 private:
  const ParallelContext* ranks_;
  comm::Work sent_;  // activation sent in the previous pass
};

// Send and receive an activation of any dtype and at most 3 dims. to, from: ranks in the group.
// send_activation() is asynchronous. Law: 32 bytes and the activation.
comm::Work send_activation(const at::Tensor& x, int to, const comm::Group& group);
at::Tensor receive_activation(int from, const comm::Group& group);

}  // namespace colossal::serve
