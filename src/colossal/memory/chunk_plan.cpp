#include "colossal/memory/chunk_plan.h"

#include <map>
#include <tuple>

namespace colossal::memory {
namespace {

constexpr int64_t kAlignmentBytes = 64;

// What the parameters of a chunk have in common. The same on all ranks, so that these cut alike.
using Kind = std::tuple<bool, const comm::Group*, int, int, int>;

Kind kind_of(const nn::Parameter& parameter) {
  const nn::Placement& placement = parameter.placement;
  return {parameter.trainable, placement.reduction, placement.num_replicas, placement.stage,
          placement.tied_stage.value_or(placement.stage)};
}

}  // namespace

int64_t alignment_elements(int64_t element_bytes) {
  return kAlignmentBytes / element_bytes;
}

std::vector<ChunkPlan> plan_chunks(const nn::ParameterList& parameters, int64_t element_bytes,
                                   int64_t chunk_bytes, int tensor_parts) {
  const int64_t chunk_numel = chunk_bytes / element_bytes * tensor_parts;
  const int64_t alignment = alignment_elements(element_bytes);
  std::vector<ChunkPlan> chunks;
  std::map<Kind, size_t> open;  // the chunk being filled
  for (size_t index = 0; index < parameters.size(); ++index) {
    const nn::ParameterHandle& parameter = parameters[index];
    const int64_t numel = parameter->local_numel();
    const Kind kind = kind_of(*parameter);
    const auto found = open.find(kind);
    if (found == open.end() ||
        chunks[found->second].global_numel + parameter->numel_over_ranks() > chunk_numel) {
      open[kind] = chunks.size();
      ChunkPlan& made = chunks.emplace_back();
      made.placement = parameter->placement;
      made.placement.held.clear();
      made.trainable = std::get<0>(kind);
      made.first_use = static_cast<int64_t>(index);
    }
    ChunkPlan& chunk = chunks[open[kind]];
    chunk.slots.push_back({parameter, chunk.numel, numel});
    chunk.global_numel += parameter->numel_over_ranks();
    chunk.numel += (numel + alignment - 1) / alignment * alignment;
  }
  return chunks;
}

}  // namespace colossal::memory
