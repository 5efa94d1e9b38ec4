#include "colossal/memory/chunk_plan.h"

#include <map>
#include <tuple>

namespace colossal::memory {
namespace {

constexpr int64_t kAlignmentBytes = 64;

// What the parameters of a chunk have in common. It is equal on all ranks, so that all make the
// same chunks.
using Kind =
    std::tuple<const optim::Optimizer*, bool, at::ScalarType, const comm::Group*, int, int, int>;

Kind kind_of(const nn::Parameter& parameter, const optim::Optimizer* optimizer,
             at::ScalarType working) {
  const nn::Placement& placement = parameter.placement;
  return {optimizer,
          parameter.trainable,
          parameter.stored_type(working),
          placement.reduction,
          placement.num_replicas,
          placement.stage,
          placement.tied_stage.value_or(placement.stage)};
}

}  // namespace

int64_t alignment_elements(int64_t element_bytes) {
  return kAlignmentBytes / element_bytes;
}

std::vector<ChunkPlan> plan_chunks(const nn::ParameterList& parameters, at::ScalarType working,
                                   int64_t chunk_bytes, int tensor_parts,
                                   const OptimizerOf& optimizer_of) {
  std::vector<ChunkPlan> chunks;
  std::map<Kind, size_t> open;  // the chunk of each kind that is being filled
  for (size_t index = 0; index < parameters.size(); ++index) {
    const nn::ParameterHandle& parameter = parameters[index];
    const int64_t numel = parameter->stored_numel();
    const int64_t numel_over_ranks = parameter->stored_numel_over_ranks();
    const at::ScalarType type = parameter->stored_type(working);
    const auto element_bytes = static_cast<int64_t>(c10::elementSize(type));
    const int64_t chunk_numel = chunk_bytes / element_bytes * tensor_parts;
    const int64_t alignment = alignment_elements(element_bytes);
    const optim::Optimizer* optimizer = parameter->trainable ? optimizer_of(*parameter) : nullptr;
    const Kind kind = kind_of(*parameter, optimizer, working);
    const auto found = open.find(kind);
    if (found == open.end() ||
        chunks[found->second].global_numel + numel_over_ranks > chunk_numel) {
      open[kind] = chunks.size();
      ChunkPlan& made = chunks.emplace_back();
      made.placement = parameter->placement;
      made.placement.held.clear();
      made.trainable = parameter->trainable;
      made.optimizer = optimizer;
      made.type = type;
      made.first_use = static_cast<int64_t>(index);
    }
    ChunkPlan& chunk = chunks[open[kind]];
    chunk.slots.push_back({parameter, chunk.numel, numel});
    chunk.global_numel += numel_over_ranks;
    chunk.numel += (numel + alignment - 1) / alignment * alignment;
  }
  return chunks;
}

}  // namespace colossal::memory
