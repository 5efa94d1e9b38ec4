// A model's repeated blocks (transformer layers). Models own a Blocks object and run blocks only
// through Blocks::forward(). A BlockRunner in the StepServices can thereby control how each block
// runs, for example with recomputation or with offload of activations.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/block_state.h"
#include "colossal/nn/builder.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

class Block {
 public:
  virtual ~Block() = default;
  // state: the streams that the block changes and the conditions that it reads, each as the model
  // says. Returns the state with the streams after the block, in their layouts.
  virtual BlockState forward(const BlockState& state, const StepContext& context) = 0;
};

// Runs blocks in place of Block::forward(); see StepServices::block_runner.
class BlockRunner {
 public:
  virtual ~BlockRunner() = default;
  // Returns the result of block.forward(state, context). index: number of the block in the model,
  // from 0.
  virtual BlockState run(int64_t index, Block& block, const BlockState& state,
                         const StepContext& context) = 0;
};

class Blocks {
 public:
  Blocks() = default;
  // Makes `count` blocks: for each index from 0, calls build.begin_part(), then make(index).
  // tower_of: returns ModelPart::tower of a block; null: 0.
  Blocks(Builder& build, int64_t count, const std::function<std::unique_ptr<Block>(int64_t)>& make,
         const std::function<int(int64_t)>& tower_of = nullptr);
  // Runs the blocks with indices `blocks` in order, for example those of a pipeline stage. state:
  // before the first of them. Returns the state after the last of them; `state` if the range is
  // empty.
  BlockState forward(Range blocks, const BlockState& state, const StepContext& context);
  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace colossal::nn
