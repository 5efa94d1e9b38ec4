// Assigns the parameters of a model to chunks: flat buffers of several parameters that are
// gathered, reduced and offloaded as a whole. ChunkEngine makes a Chunk from each ChunkPlan.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/nn/parameter.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

// The place of a parameter in a chunk.
struct Slot {
  nn::ParameterHandle parameter;
  int64_t offset = 0;  // index of the first element in the chunk's buffer
  // Number of elements of the parameter's tensor on this rank (Parameter::stored_numel()). ZeRO may
  // divide these further: it divides a chunk's buffer among the ranks of a shard group.
  int64_t numel = 0;
};

struct ChunkPlan {
  std::vector<Slot> slots;  // in the order in which the model uses the parameters
  // Elements of the buffer before ZeRO divides it, with the gaps that align slots to 64 bytes. A
  // Chunk of several parameters that ZeRO divides adds some, so that all ranks' shards are equal.
  int64_t numel = 0;
  nn::Placement placement;  // that of every parameter, but without `held`, which may differ
  // Whether the parameters are trained. Frozen parameters have chunks of their own, without
  // gradients, optimizer state or gradient traffic.
  bool trainable = true;
  // Updates the parameters; null if they are not trained.
  const optim::Optimizer* optimizer = nullptr;
  // Dtype of the elements: Parameter::stored_type(). Packed weights, stored as bytes, have chunks
  // of their own.
  at::ScalarType type = at::kFloat;
  int64_t first_use = 0;  // index of the first slot's parameter in the list given to plan_chunks()
  // Elements of the whole parameters, over all ranks, without gaps. Each element counts once,
  // however many ranks hold it. The same on all ranks that have this chunk, even if their shards of
  // the parameters differ in size.
  int64_t global_numel = 0;

  int64_t element_bytes() const { return static_cast<int64_t>(c10::elementSize(type)); }
  int64_t global_bytes() const { return global_numel * element_bytes(); }
};

using OptimizerOf = std::function<const optim::Optimizer*(const nn::Parameter&)>;

// Packs `parameters`, given in the order in which the model uses them, into chunks. A chunk has at
// most chunk_bytes * tensor_parts bytes of whole parameters (ChunkPlan::global_bytes()), i.e. about
// `chunk_bytes` on each rank if the parameters are divided among the ranks of tp. A parameter is
// never divided between chunks; a parameter above this limit has a chunk of its own.
// The parameters of a chunk have one dtype, are on the same stages and ranks, and are all frozen or
// have one optimizer. optimizer_of: returns the optimizer of a trainable parameter. working: dtype
// in which the model computes. tensor_parts: number of ranks of tp. All ranks that hold the same
// parameters assign them to the same chunks, even if their shards of tensors differ in size.
std::vector<ChunkPlan> plan_chunks(const nn::ParameterList& parameters, at::ScalarType working,
                                   int64_t chunk_bytes, int tensor_parts,
                                   const OptimizerOf& optimizer_of);

// Returns the alignment of slots and of the ranks' shards of a chunk, 64 bytes, in elements of
// `element_bytes` bytes.
int64_t alignment_elements(int64_t element_bytes);

}  // namespace colossal::memory
