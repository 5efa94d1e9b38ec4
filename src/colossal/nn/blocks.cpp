#include "colossal/nn/blocks.h"

#include <fmt/format.h>

#include "colossal/nn/layer_scope.h"

namespace colossal::nn {

Blocks::Blocks(Builder& build, int64_t count,
               const std::function<std::unique_ptr<Block>(int64_t)>& make,
               const std::function<int(int64_t)>& tower_of) {
  blocks_.reserve(count);
  for (int64_t index = 0; index < count; ++index) {
    build.begin_part({ModelPart::Kind::block, index, tower_of ? tower_of(index) : 0});
    blocks_.push_back(make(index));
  }
}

BlockState Blocks::forward(Range blocks, const BlockState& state, const StepContext& context) {
  BlockState after = state;
  BlockRunner* const runner = context.services.block_runner;
  for (int64_t index = blocks.begin; index < blocks.end; ++index) {
    Block& block = *blocks_[index];
    const LayerScope scope([&] { return fmt::format("blocks.{}", index); });
    after = runner ? runner->run(index, block, after, context) : block.forward(after, context);
  }
  return after;
}

}  // namespace colossal::nn
