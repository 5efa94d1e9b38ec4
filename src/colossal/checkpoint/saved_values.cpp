#include "colossal/checkpoint/saved_values.h"

#include <algorithm>
#include <utility>

#include "colossal/checkpoint/file_plan.h"

namespace colossal::checkpoint {
namespace {

bool has_masters(const nn::Parameter& parameter, const memory::ChunkEngine& chunks) {
  return parameter.trainable && chunks.options().master != chunks.options().working;
}

}  // namespace

std::vector<nn::ParameterList> saved_tensors(const memory::ChunkEngine& chunks,
                                             const WeightFiles& files) {
  std::vector<nn::ParameterList> tensors;
  for (const nn::ParameterHandle& parameter : chunks.parameters()) {
    if (files.only_adapter && !parameter->of_adapter) continue;
    if (parameter->begins_tensor()) tensors.emplace_back();
    tensors.back().push_back(parameter);
  }
  return tensors;
}

std::vector<SavedValues> saved_values(const nn::Parameter& parameter,
                                      const memory::ChunkEngine& chunks, const SliceOf& slice_of) {
  const memory::ChunkOptions& options = chunks.options();
  std::vector<SavedValues> kinds{{.slice = slice_of(parameter.name),
                                  .type = parameter.stored_type(options.working),
                                  .shape = parameter.shape,
                                  .are_weights = true}};
  if (!parameter.trainable) return kinds;
  const auto add = [&](std::string name, bool are_weights) {
    kinds.push_back({{std::move(name)}, options.master, parameter.shape, are_weights});
  };
  if (has_masters(parameter, chunks)) add(FilePlan::master_name(parameter.name), true);
  for (const std::string& state : chunks.optimizer_of(parameter)->state_names()) {
    add(FilePlan::state_name(state, parameter.name), false);
  }
  return kinds;
}

std::vector<SavedValues> saved_whole_states(const nn::Parameter& parameter,
                                            const memory::ChunkEngine& chunks) {
  std::vector<SavedValues> kinds;
  for (const optim::WholeState& state : chunks.whole_state_specs(parameter)) {
    kinds.push_back(
        {{FilePlan::state_name(state.name, parameter.name)}, chunks.options().master, state.shape});
  }
  return kinds;
}

std::vector<at::ScalarType> held_types(const memory::OwnedShard& shard,
                                       const memory::ChunkEngine& chunks) {
  const memory::Chunk& chunk = *shard.chunk;
  std::vector<at::ScalarType> types{chunk.weights().type()};
  if (!shard.parameter->trainable) return types;
  if (has_masters(*shard.parameter, chunks)) types.push_back(chunk.master().type());
  for (const auto& state : chunk.state()) types.push_back(state->type());
  return types;
}

std::vector<at::Tensor> ShardReader::read(const memory::OwnedShard& shard, Range elements) {
  const memory::Chunk& chunk = *shard.chunk;
  const int64_t begin = shard.in_chunk.begin + elements.begin - shard.elements.begin;
  const Range wanted{begin, begin + elements.size()};
  if (chunk_ != &chunk || wanted.begin < window_.begin || wanted.end > window_.end) {
    chunk_ = &chunk;
    window_ = {wanted.begin,
               std::max(wanted.end, std::min(chunk.part.end, wanted.begin + memory::kSpan))};
    here_ = {chunk.weights().read(window_)};
    if (shard.parameter->trainable) {
      if (has_masters(*shard.parameter, chunks_)) here_.push_back(chunk.master().read(window_));
      for (const auto& state : chunk.state()) here_.push_back(state->read(window_));
    }
  }
  std::vector<at::Tensor> values;
  for (const at::Tensor& tensor : here_) {
    values.push_back(tensor.narrow(0, wanted.begin - window_.begin, wanted.size()));
  }
  return values;
}

}  // namespace colossal::checkpoint
