// Reads weights from Hugging Face folders and checkpoints into a model's parameters. Of a
// parameter, each rank reads at most its shard (below); only read_weight() reads a whole weight.
// Quantized weights are decoded (stored_tensor.h).
//
// `slice` below says where files store a parameter (layout/tensor_slice.h): in a whole tensor, in
// some rows or columns of a tensor, or in several tensors that are stacked (such as one for each
// expert). "This rank's shard" of a parameter is its tensor-parallel shard
// (Parameter::for_each_run()), of shape Parameter::local_shape(), also called its local shape. "The
// dtype of the StoredTensor" is the tensor's dtype in the file or, if the tensor is quantized, the
// dtype to which it is decoded: bf16 or fp32, by format.
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
#include "colossal/checkpoint/weight_files.h"
#include "colossal/io/safetensors.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/nn/parameter.h"

namespace colossal::checkpoint {

// Says what to do with the tensor `name` of a folder, which belongs to no parameter. An empty
// string: ignore it. Another string, the name of a second tensor: ignore it if the two are equal;
// otherwise read_weights() throws ConfigError. nullopt: the tensor is unknown, and read_weights()
// throws ConfigError.
using SpareTensor = std::function<std::optional<std::string>(const std::string& name)>;

// This rank's shard of a parameter, as read from a folder.
struct LocalWeights {
  at::Tensor numbers;  // decoded values, of the local shape, in the dtype of the StoredTensor
  // How the folder quantizes the parameter. nullopt if it does not, if linear layers cannot use the
  // quantized form without decoding, or if the caller does not ask for this form (as_stored below).
  std::optional<ops::Quantization> stored{};
  // If `stored` is set: scales and zero points, in the shape of `numbers` with groups in place of
  // inputs. `zeros` is undefined if zero points are not stored.
  at::Tensor scales{}, zeros{};
};

// Parameters that are read, but not stored in the ChunkEngine.
struct UnchunkedParameters {
  nn::ParameterList parameters{};
  // Called with this rank's shard of each parameter when the shard was read. May be empty only if
  // `parameters` is empty.
  std::function<void(nn::Parameter& parameter, const LocalWeights& weights)> take{};
  bool as_stored = false;  // whether LocalWeights::stored, scales and zeros are read, too
};

// A change of some weights after they are read and before they are stored.
struct ChangedWeights {
  // Whether the weight is changed. Empty: no weight is changed.
  std::function<bool(const nn::Parameter& parameter)> applies{};
  // Returns the changed values, of any floating-point dtype. here: this rank's shard of the weight,
  // of its local shape and in the dtype of the StoredTensor.
  std::function<at::Tensor(const nn::Parameter& parameter, const at::Tensor& here)> change{};
};

// Returns the tensor `name` of a folder as it is stored, not decoded. Also tries other names that
// folders use for it: `name` without its first part (models without a head have "wte.weight" for
// "transformer.wte.weight"), and its names in folders of models for images and text. Throws
// ConfigError if there is none.
io::TensorDirectory::Tensor find_weight(const WeightFolder& folder, const std::string& name);

// Returns the shape, after decoding, of the weight `name` (or of one of the other names that
// find_weight() tries). Throws ConfigError if there is none.
std::vector<int64_t> weight_shape(const WeightFolder& folder, const std::string& name);

// Reads and decodes the whole weight `name` (or of one of the other names that find_weight()
// tries). Returns it in the dtype of the StoredTensor. Throws ConfigError if there is none, and
// IoError if a value is not finite.
at::Tensor read_weight(const WeightFolder& folder, const std::string& name);

// Reads and decodes this rank's shard of a parameter. Returns it in its local shape, in the dtype
// of the StoredTensor. Throws ConfigError if a tensor is missing or has another shape, and IoError
// if a value is not finite.
at::Tensor read_parameter(const WeightFolder& folder, const nn::Parameter& parameter,
                          const TensorSlice& slice);

// Returns how a folder quantizes the weight of a linear layer, or the stacked weights of several.
// Returns nullopt if the parameter is no such weight, if it is not quantized, or if linear layers
// cannot use its quantized form without decoding. Throws ConfigError if a tensor is missing.
std::optional<ops::Quantization> stored_quantization(const WeightFolder& folder,
                                                     const nn::Parameter& parameter,
                                                     const TensorSlice& slice);

// Reads weights from a folder. `parameters`, some of the parameters of `chunks`, are stored in
// `chunks`; the parameters of `apart` are passed to apart.take(). spare: says what to do with
// tensors that belong to no parameter of `chunks` and `apart`. changed: applied to `parameters`,
// but not to those of `apart`. For each tensor, tries the names that find_weight() tries. If one of
// `parameters` is packed (Parameter::packed), collective over the ranks of tp or, for a packed
// stack of experts, of ep and expert_tp (ChunkEngine::store_packed()); otherwise not collective.
//
// Throws ConfigError with the tensor's name if a tensor is missing, has another shape, or belongs
// to no parameter of `chunks` and `apart` and `spare` does not say to ignore it. (A bias of zeros
// in a folder of quantized weights is always ignored.) Throws IoError with the tensor's name if a
// value is not finite.
void read_weights(
    const std::filesystem::path& folder, const nn::ParameterList& parameters,
    memory::ChunkEngine& chunks, const SliceOf& slice_of,
    const SpareTensor& spare = [](const std::string&) { return std::nullopt; },
    const UnchunkedParameters& apart = {}, const ChangedWeights& changed = {});

// Reads the weights of `parameters` from one safetensors file of plain values into `chunks`. spare:
// returns whether a tensor that belongs to none of `parameters` may be in the file; such a tensor
// is ignored. Throws ConfigError if a tensor is missing, has another shape, or belongs to none of
// `parameters` and is not spare. Throws IoError if a value is not finite.
void read_weights_of_file(
    const std::filesystem::path& file, const nn::ParameterList& parameters,
    memory::ChunkEngine& chunks, const SliceOf& slice_of,
    const std::function<bool(const std::string& tensor)>& spare = [](const std::string&) {
      return false;
    });

// Receives values of a parameter, flat and in the dtype of the StoredTensor. begin: index of the
// first value in this rank's flattened shard. values: overwritten after the call.
using TakeValues = std::function<void(int64_t begin, const at::Tensor& values)>;

// One of the tensors of files that together store a parameter.
struct TensorPart {
  std::string name;  // of the tensor
  Range here;        // the elements of this rank's flattened shard that the tensor stores
};
// Returns which tensors store the elements `here` of this rank's flattened shard: one TensorPart
// for each of slice.names(), in this order. The range of a TensorPart is empty if its tensor stores
// none of the elements.
std::vector<TensorPart> tensor_parts(const TensorSlice& slice, const nn::Parameter& parameter,
                                     Range here);

// Reads the elements `here` of this rank's flattened shard of a parameter into a buffer of at most
// `buffer_bytes`, and calls `take` whenever the buffer is full, and at the end. `tensor` must store
// all these elements. Throws ConfigError if the tensor has another shape than `slice` says, and
// IoError if the file cannot be read.
void read_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                 const TensorSlice& slice, Range here, const TakeValues& take,
                 int64_t buffer_bytes = kBufferBytes);

// Like read_tensor(), but stores the values in `chunks`. Also throws IoError if a value is not
// finite.
void read_weights_of_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                            const TensorSlice& slice, Range here, memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
