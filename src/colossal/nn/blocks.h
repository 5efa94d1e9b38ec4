// A model's repeated blocks. A model runs them only by Blocks::forward(), so that the BlockRunner
// in the context decides how each block runs (recomputation, offload, prefetch).
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/builder.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

class Block {
 public:
  virtual ~Block() = default;
  // x: the residual stream, [batch, sequence, hidden], or this rank's shard of it, as is the
  // result.
  virtual at::Tensor forward(const at::Tensor& x, const StepContext& context) = 0;
};

class BlockRunner {
 public:
  virtual ~BlockRunner() = default;
  // Runs `block`, which has number `index` in the model, on x (as in Block::forward()) and
  // returns what block.forward(x, context) does.
  virtual at::Tensor run(int64_t index, Block& block, const at::Tensor& x,
                         const StepContext& context) = 0;
};

class Blocks {
 public:
  Blocks() = default;
  // Makes blocks 0 .. count - 1 by make(index), each after build.begin_part().
  Blocks(Builder& build, int64_t count, const std::function<std::unique_ptr<Block>(int64_t)>& make);
  // Runs a range of the blocks in order, for example those of a pipeline stage. x, result: as in
  // Block::forward().
  at::Tensor forward(Range blocks, const at::Tensor& x, const StepContext& context);
  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace colossal::nn
