// Pipeline parallelism for forward passes without gradients: runs a rank's pipeline stages, and
// sends activations between ranks. Used by ForwardPass and evaluate().
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/comm/group.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

// A function that computes one stage and returns its output, which the last stage may leave
// undefined. stage: number of the stage in the model, from 0. x: output of the previous stage;
// undefined for stage 0.
using RunStage = std::function<at::Tensor(int stage, const at::Tensor& x)>;

// Runs the stages of this rank; construct one object for all forward passes of a model.
class Stages {
 public:
  // ranks: the ranks that hold the model; must outlive this object. Null: this rank holds the whole
  // model, which is stage 0.
  explicit Stages(const ParallelContext* ranks) : ranks_(ranks) {}

  // Runs this rank's stages of one forward pass, in order; receives the activation before a stage,
  // and sends the output of a stage, if the neighbouring stage is on another rank. Sending is
  // asynchronous: run() may return before the next rank has received the last output. Law: at each
  // border between stages on different ranks, the bytes of send_activation().
  void run(const RunStage& run);

 private:
  const ParallelContext* ranks_;
  comm::Work sent_;  // the last activation sent; the next is sent only after this has completed
};

// Send and receive an activation of any dtype and at most 3 dims; the receiver need not know dtype
// and shape. to, from: rank numbers within `group`. send_activation() is asynchronous; x must not
// be changed until the returned work is done. receive_activation() waits for the activation and
// returns it as a tensor on group.device(). Law: the activation and 32 bytes, which describe its
// dtype and shape.
comm::Work send_activation(const at::Tensor& x, int to, const comm::Group& group);
at::Tensor receive_activation(int from, const comm::Group& group);

}  // namespace colossal::serve
