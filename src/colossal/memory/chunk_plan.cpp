#include "colossal/memory/chunk_plan.h"

#include <array>
#include <optional>

namespace colossal::memory {
namespace {

constexpr int64_t kAlignmentBytes = 64;

int group_of(const nn::Parameter& parameter) {
  if (!parameter.trainable) return 0;
  return parameter.shape.size() >= 2 ? 1 : 2;
}

}  // namespace

int64_t alignment_elements(int64_t element_bytes) {
  return kAlignmentBytes / element_bytes;
}

std::vector<ChunkPlan> plan_chunks(const nn::ParameterList& parameters, int64_t element_bytes,
                                   int64_t chunk_bytes) {
  const int64_t alignment = alignment_elements(element_bytes);
  std::vector<ChunkPlan> chunks;
  std::array<std::optional<size_t>, 3> open;  // by group: the chunk being filled
  for (size_t index = 0; index < parameters.size(); ++index) {
    const nn::ParameterHandle& parameter = parameters[index];
    const int64_t numel = parameter->numel();
    const int group = group_of(*parameter);
    if (open[group] && (chunks[*open[group]].numel + numel) * element_bytes > chunk_bytes) {
      open[group].reset();
    }
    if (!open[group]) {
      open[group] = chunks.size();
      ChunkPlan& made = chunks.emplace_back();
      made.decayed = group == 1;
      made.trainable = group != 0;
      made.first_use = static_cast<int64_t>(index);
    }
    ChunkPlan& chunk = chunks[*open[group]];
    chunk.slots.push_back({parameter, chunk.numel, numel});
    chunk.numel += (numel + alignment - 1) / alignment * alignment;
  }
  return chunks;
}

}  // namespace colossal::memory
