// Reads weights from Hugging Face folders and checkpoints. Reads only the byte ranges of the
// elements that this rank keeps, at most 64 MiB at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "colossal/checkpoint/stored_tensor.h"
#include "colossal/checkpoint/strided_shards.h"
#include "colossal/io/safetensors.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/nn/parameter.h"

namespace colossal::checkpoint {

// Returns where files store a parameter.
using SliceOf = std::function<TensorSlice(const std::string& parameter)>;

// Classifies a tensor that belongs to no parameter. Returns "" if the tensor is spare: it is not
// needed. Returns a name if the tensor is spare, but must be a copy of the tensor with that name.
// Returns nullopt if the tensor is unknown.
using SpareTensor = std::function<std::optional<std::string>(const std::string& name)>;

// This rank's shard of a parameter.
struct LocalWeights {
  at::Tensor numbers;  // the values, decoded: of the local shape, in the dtype of the StoredTensor
  // The quantization in the folder, if linear layers can use it without decoding, and if
  // UnchunkedParameters::as_stored is true; else nullopt.
  std::optional<ops::Quantization> stored{};
  // If `stored` is set: the scales and zero points, in the shape of `numbers` with groups in place
  // of inputs. zeros: undefined if zero points are not stored.
  at::Tensor scales{}, zeros{};
};

// Parameters that are read, but not into chunks. `take` is called with each parameter's whole shard
// as soon as it is read.
struct UnchunkedParameters {
  nn::ParameterList parameters{};
  std::function<void(nn::Parameter& parameter, const LocalWeights& weights)> take{};
  bool as_stored = false;  // true: also reads LocalWeights::stored, scales and zeros where possible
};

// A change of some weights between reading and storing them.
struct ChangedWeights {
  std::function<bool(const nn::Parameter& parameter)> applies{};  // whether the weight is changed
  // Returns the changed values, of any floating-point dtype. here: this rank's shard of the weight,
  // of its local shape and in the dtype of the StoredTensor.
  std::function<at::Tensor(const nn::Parameter& parameter, const at::Tensor& here)> change{};
};

// Finds the tensor `name` under one of the names that folders use for it: `name` itself; `name`
// without its first part ("transformer."), as models without a head are saved; or its name in the
// folder of a model for images and text. Throws ConfigError if there is none.
io::TensorDirectory::Tensor find_weight(const WeightFolder& folder, const std::string& name);

// Returns the shape of a tensor after decoding. Finds the tensor as find_weight() does.
std::vector<int64_t> weight_shape(const WeightFolder& folder, const std::string& name);

// Reads a whole tensor; a quantized tensor is decoded. Finds the tensor as find_weight() does.
at::Tensor read_weight(const WeightFolder& folder, const std::string& name);

// Reads this rank's shard of a parameter, of its local shape; a quantized tensor is decoded.
at::Tensor read_parameter(const WeightFolder& folder, const nn::Parameter& parameter,
                          const TensorSlice& slice);

// Returns how a folder quantizes the weight of a linear layer, or the weights of a stack of linear
// layers. Returns nullopt if the parameter is no such weight, if it is not quantized, or if linear
// layers cannot use its quantized form without decoding.
std::optional<ops::Quantization> stored_quantization(const WeightFolder& folder,
                                                     const nn::Parameter& parameter,
                                                     const TensorSlice& slice);

// Reads weights from a folder: those of `parameters`, a subset of the parameters of `chunks`, into
// `chunks`, and those of `apart`. Finds tensors as find_weight() does. Throws ConfigError, naming
// the tensor, if a tensor is missing, has another shape, or belongs to no parameter of `chunks` or
// `apart` and is neither spare nor a bias of zeros in a quantized folder. Throws IoError, naming
// the tensor, if a value is not finite.
void read_weights(
    const std::filesystem::path& folder, const nn::ParameterList& parameters,
    memory::ChunkEngine& chunks, const SliceOf& slice_of,
    const SpareTensor& spare = [](const std::string&) { return std::nullopt; },
    const UnchunkedParameters& apart = {}, const ChangedWeights& changed = {});

// Reads the weights of `parameters` from one file of plain tensors. For every other tensor of the
// file, `spare` must return true. Throws as read_weights() does.
void read_weights_of_file(
    const std::filesystem::path& file, const nn::ParameterList& parameters,
    memory::ChunkEngine& chunks, const SliceOf& slice_of,
    const std::function<bool(const std::string& tensor)>& spare = [](const std::string&) {
      return false;
    });

// Receives flat values, in the dtype of the StoredTensor, which are overwritten after the call.
// begin: index of the first value in this rank's flattened shard.
using TakeValues = std::function<void(int64_t begin, const at::Tensor& values)>;

// One of the tensors that together store a parameter.
struct TensorPart {
  std::string name;
  Range here;  // which elements of this rank's flattened shard it stores
};
// Returns which tensors store the elements `here` of this rank's flattened shard: one part for each
// of TensorSlice::names(), in their order, even if it stores none of these elements.
std::vector<TensorPart> tensor_parts(const TensorSlice& slice, const nn::Parameter& parameter,
                                     Range here);

// Reads the elements `here` of this rank's flattened shard of a parameter (see
// Parameter::for_each_run), in a buffer of at most `buffer_bytes`, and calls `take` whenever the
// buffer is full.
// `tensor` must store all of these elements, at the places that `slice` describes. Throws
// ConfigError if the tensor's shape does not fit `slice`.
void read_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                 const TensorSlice& slice, Range here, const TakeValues& take,
                 int64_t buffer_bytes = kBufferBytes);

// Reads as read_tensor() does, into `chunks`. Also throws IoError if a value is not finite.
void read_weights_of_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                            const TensorSlice& slice, Range here, memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
