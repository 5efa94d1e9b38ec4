// Which values of a model's parameters a checkpoint has: for each kind of values (weights, masters,
// optimizer states) their dtype, their shape, and the tensors of files that store them. FilePlan,
// the writer (shard_writer.h) and SaveProof all follow these lists.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/checkpoint/weight_files.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/nn/parameter.h"

namespace colossal::checkpoint {

// Values of one kind of a parameter.
struct SavedValues {
  TensorSlice slice;           // the tensors of files that store them, and at which elements
  at::ScalarType type;         // their dtype in files, which is their dtype in the ChunkEngine
  std::vector<int64_t> shape;  // of the whole values
  bool are_weights = false;    // weights or masters, which must be finite
};

// Returns the tensors of the model whose values a checkpoint has, each as the parameters that make
// it up: one, or the row blocks of a vocabulary table. The same on all ranks.
std::vector<nn::ParameterList> saved_tensors(const memory::ChunkEngine& chunks,
                                             const WeightFiles& files);

// Returns the kinds of values with one value for each element of the parameter: the weights; if it
// is trained, the masters, unless masters have the dtype in which the model computes, and the
// optimizer states.
std::vector<SavedValues> saved_values(const nn::Parameter& parameter,
                                      const memory::ChunkEngine& chunks, const SliceOf& slice_of);

// Returns the optimizer states with shapes of their own (ChunkEngine::whole_state_specs()), in the
// order of that function.
std::vector<SavedValues> saved_whole_states(const nn::Parameter& parameter,
                                            const memory::ChunkEngine& chunks);

// Returns the dtypes in which the rank holds the values of a shard, in the order of saved_values().
std::vector<at::ScalarType> held_types(const memory::OwnedShard& shard,
                                       const memory::ChunkEngine& chunks);

// Reads values of this rank's shards. Those on NVMe are read in spans, which serve the following
// shards, too, so that a shard of many short ranges is read only once.
class ShardReader {
 public:
  // `chunks` must outlive this.
  explicit ShardReader(const memory::ChunkEngine& chunks) : chunks_(chunks) {}

  // Returns the values of some elements of a shard, [elements.size()], in the order of
  // saved_values(). elements: of the flattened parameter, within shard.elements. The tensors are
  // valid until the next call. Throws IoError.
  std::vector<at::Tensor> read(const memory::OwnedShard& shard, Range elements);

 private:
  const memory::ChunkEngine& chunks_;
  const memory::Chunk* chunk_ = nullptr;
  Range window_;                  // elements of the chunk's buffer that were read last
  std::vector<at::Tensor> here_;  // their values
};

}  // namespace colossal::checkpoint
