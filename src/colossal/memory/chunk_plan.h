// Assigns parameters to chunks: flat buffers that are communicated as a whole.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "colossal/nn/parameter.h"

namespace colossal::memory {

// The place of a parameter in a chunk, in elements.
struct Slot {
  nn::ParameterHandle parameter;
  int64_t offset = 0;
  int64_t numel = 0;
};

struct ChunkPlan {
  std::vector<Slot> slots;  // in order of use
  int64_t numel = 0;        // of the buffer; slots are aligned to 64 bytes
  nn::Placement placement;  // that of each of its parameters; `held` is empty
  // Frozen parameters have chunks of their own, without gradients, state or gradient traffic.
  bool trainable = true;
  // Dtype of the elements. Packed weights have chunks of their own.
  at::ScalarType type = at::kFloat;
  int64_t first_use = 0;  // of the first slot, as an index in order of use
  // Elements of its parameters, summed over the tensor-parallel ranks; without gaps. Equal on all
  // ranks.
  int64_t global_numel = 0;

  int64_t element_bytes() const { return static_cast<int64_t>(c10::elementSize(type)); }
  int64_t global_bytes() const { return global_numel * element_bytes(); }
};

// Packs `parameters`, given in order of use, into chunks of at most `chunk_bytes` per rank, on
// average over the tensor-parallel ranks. A parameter is never divided between chunks; a parameter
// larger than `chunk_bytes` has a chunk of its own. All parameters of a chunk have one placement
// and dtype, and are all trainable or all frozen. working: dtype in which the model computes.
// tensor_parts: number of ranks over which tensors are divided. All ranks that hold the same
// parameters assign them to the same chunks, even if their shards of tensors differ in size.
std::vector<ChunkPlan> plan_chunks(const nn::ParameterList& parameters, at::ScalarType working,
                                   int64_t chunk_bytes, int tensor_parts);

// Alignment, in elements, of slots and of the ranks' shards: 64 bytes.
int64_t alignment_elements(int64_t element_bytes);

}  // namespace colossal::memory
