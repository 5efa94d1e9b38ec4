// BlockState: what flows from a model's inputs through its blocks to its heads, and from one
// pipeline stage to the next.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::nn {

struct BlockState {
  // The residual streams of the model's stacks of blocks, in the order of the stacks: one in a
  // decoder or an encoder, those of encoder and decoder in an encoder-decoder. Each is [batch,
  // positions, hidden], or this rank's shard of it.
  std::vector<at::Tensor> streams;
  // What is made once, before the first block, and read by many blocks, such as biases of relative
  // positions.
  std::vector<at::Tensor> conditions = {};

  // The stream that the head reads after the last block.
  const at::Tensor& output() const { return streams.back(); }
  // Streams, then conditions.
  std::vector<at::Tensor> tensors() const;
};

}  // namespace colossal::nn
