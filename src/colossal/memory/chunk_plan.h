// Which parameter lies where: flat buffers ("chunks") that are communicated and updated whole.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "colossal/nn/parameter.h"

namespace colossal::memory {

// A parameter within a chunk; offsets in elements.
struct Slot {
  nn::ParameterHandle parameter;
  int64_t offset = 0;
  int64_t numel = 0;
};

struct ChunkPlan {
  std::vector<Slot> slots;  // in order of use
  int64_t numel = 0;        // of the buffer; slots start at multiples of 64 bytes
  nn::Placement placement;  // of its parameters, but for what they hold: the ranks they share with
  bool trainable = true;    // frozen parameters sit apart: no gradient, no state, no traffic
  at::ScalarType type = at::kFloat;  // of the elements; packed weights sit apart too
  int64_t first_use = 0;             // index in order of use of the first slot
  int64_t global_numel = 0;          // of its parameters' global tensors: the same on all ranks

  int64_t element_bytes() const { return static_cast<int64_t>(c10::elementSize(type)); }
  int64_t global_bytes() const { return global_numel * element_bytes(); }
};

// Packs `parameters` (in order of use) into chunks of about `chunk_bytes`. A parameter is never
// cut; a larger one has a chunk of its own. Parameters of a chunk are reduced over the same ranks.
// `tensor_parts`: ranks over which tensors are cut. All ranks cut chunks alike, also where their
// parts of tensors are uneven.
// working: what the model computes with.
std::vector<ChunkPlan> plan_chunks(const nn::ParameterList& parameters, at::ScalarType working,
                                   int64_t chunk_bytes, int tensor_parts);

// Elements to which slots and the parts of ranks are aligned: 64 bytes.
int64_t alignment_elements(int64_t element_bytes);

}  // namespace colossal::memory
