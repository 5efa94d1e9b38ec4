// Assigns the parameters of a model to chunks: flat buffers of several parameters that are
// gathered, reduced and offloaded as a whole. ChunkEngine makes a Chunk from each ChunkPlan.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <vector>

#include "colossal/nn/parameter.h"

namespace colossal::memory {

// The place of a parameter in a chunk.
struct Slot {
  nn::ParameterHandle parameter;
  int64_t offset = 0;  // index of the first element in the chunk's buffer
  int64_t numel = 0;   // number of elements that this rank stores of the parameter
};

struct ChunkPlan {
  std::vector<Slot> slots;  // in the order in which the model uses the parameters
  int64_t numel = 0;        // elements of the buffer, with the gaps that align slots to 64 bytes
  nn::Placement placement;  // the placement of each of the parameters; `held` is empty
  // Whether the parameters are trained. Frozen parameters have chunks of their own, without
  // gradients, optimizer state or gradient traffic.
  bool trainable = true;
  // Dtype of the elements: Parameter::stored_type(). Packed weights, stored as bytes, have chunks
  // of their own.
  at::ScalarType type = at::kFloat;
  int64_t first_use = 0;  // index of the first slot's parameter in the list given to plan_chunks()
  // Elements of the parameters, summed over the tensor-parallel ranks, without gaps. The same on
  // all ranks.
  int64_t global_numel = 0;

  int64_t element_bytes() const { return static_cast<int64_t>(c10::elementSize(type)); }
  int64_t global_bytes() const { return global_numel * element_bytes(); }
};

// Packs `parameters`, given in the order in which the model uses them, into chunks of at most
// `chunk_bytes` bytes of weights per rank, on average over the tensor-parallel ranks. A parameter
// is never divided between chunks; a parameter larger than `chunk_bytes` has a chunk of its own.
// The parameters of a chunk have one dtype, are on the same stages and ranks, and are all trainable
// or all frozen. working: dtype in which the model computes. tensor_parts: number of ranks of tp.
// All ranks that hold the same parameters assign them to the same chunks, even if their shards of
// tensors differ in size.
std::vector<ChunkPlan> plan_chunks(const nn::ParameterList& parameters, at::ScalarType working,
                                   int64_t chunk_bytes, int tensor_parts);

// Returns the alignment of slots and of the ranks' shards of a chunk, 64 bytes, in elements of
// `element_bytes` bytes.
int64_t alignment_elements(int64_t element_bytes);

}  // namespace colossal::memory
