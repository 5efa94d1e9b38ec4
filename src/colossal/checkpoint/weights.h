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
#include "colossal/io/safetensors.h"
#include "colossal/layout/tensor_slice.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/nn/parameter.h"

namespace colossal::checkpoint {

// Returns where files store a parameter.
using SliceOf = std::function<TensorSlice(const std::string& parameter)>;

// Classifies a tensor that belongs to no parameter. Returns nullopt if the tensor is unknown, "" if
// it is not needed, else the name of the tensor of which it must be a copy.
using SpareTensor = std::function<std::optional<std::string>(const std::string& name)>;

// This rank's shard of a parameter, of its local shape and in the dtype of the file.
struct LocalWeights {
  at::Tensor numbers;
  // Set if the file has the linear layer's weight in a quantized form that can be used without
  // decoding, and UnchunkedParameters::as_stored is true: the quantization, and the scales and zero
  // points of the groups. Their shape is that of `numbers` with one entry per group in place of the
  // inputs. zeros: undefined if there are no zero points.
  std::optional<ops::Quantization> stored{};
  at::Tensor scales{}, zeros{};
};

// Parameters that are not in chunks. `take` is called with each parameter's whole shard as soon as
// it is read.
struct UnchunkedParameters {
  nn::ParameterList parameters{};
  std::function<void(nn::Parameter& parameter, const LocalWeights& weights)> take{};
  bool as_stored = false;  // also read scales and zeros, if stored_quantization() is set
};

// Weights that are changed after they are read.
struct ChangedWeights {
  std::function<bool(const nn::Parameter& parameter)> applies{};
  // here: this rank's shard of the weight, of its local shape and in the dtype of the file. Returns
  // the values to keep.
  std::function<at::Tensor(const nn::Parameter& parameter, const at::Tensor& here)> change{};
};

// Finds a tensor by its name, by its name without the first part ("transformer."), as bare models
// are saved, or by its name in the folder of a model for images and text. Throws ConfigError if
// there is none.
io::TensorDirectory::Tensor find_weight(const WeightFolder& folder, const std::string& name);

// Returns the shape of a tensor after decoding. Finds the tensor as find_weight() does.
std::vector<int64_t> weight_shape(const WeightFolder& folder, const std::string& name);

// Reads a whole tensor; a quantized tensor is decoded. Finds the tensor as find_weight() does.
at::Tensor read_weight(const WeightFolder& folder, const std::string& name);

// Reads this rank's shard of a parameter, of its local shape; a quantized tensor is decoded.
at::Tensor read_parameter(const WeightFolder& folder, const nn::Parameter& parameter,
                          const TensorSlice& slice);

// Returns the quantization in which a folder stores the weight of a linear layer, or of a stack of
// linear layers. Returns nullopt if the weight is not quantized, or if its form cannot be used
// without decoding.
std::optional<ops::Quantization> stored_quantization(const WeightFolder& folder,
                                                     const nn::Parameter& parameter,
                                                     const TensorSlice& slice);

// Reads the weights of `parameters`, a subset of those of `chunks`, from a folder. Finds tensors as
// find_weight() does. Throws ConfigError, naming the tensor, if a tensor is missing, has another
// shape, or belongs to no parameter of `chunks` or `apart` and is not spare. Throws IoError, naming
// the tensor, if a value is not finite.
void read_weights(
    const std::filesystem::path& folder, const nn::ParameterList& parameters,
    memory::ChunkEngine& chunks, const SliceOf& slice_of,
    const SpareTensor& spare = [](const std::string&) { return std::nullopt; },
    const UnchunkedParameters& apart = {}, const ChangedWeights& changed = {});

// Reads the weights of `parameters` from one file. Every other tensor of the file must be spare.
// Throws as read_weights() does.
void read_weights_of_file(
    const std::filesystem::path& file, const nn::ParameterList& parameters,
    memory::ChunkEngine& chunks, const SliceOf& slice_of,
    const std::function<bool(const std::string& tensor)>& spare = [](const std::string&) {
      return false;
    });

// Receives flat values from element `begin` on, in the dtype of the file.
using TakeValues = std::function<void(int64_t begin, const at::Tensor& values)>;

// One of the tensors that store a parameter, and the range of this rank's elements that it stores,
// counted as in read_tensor().
struct TensorPart {
  std::string name;
  Range here;
};
// Returns the parts in the order of TensorSlice::names(), including parts that have no elements in
// `here`.
std::vector<TensorPart> tensor_parts(const TensorSlice& slice, const nn::Parameter& parameter,
                                     Range here);

// Reads the elements `here` of this rank's shard of a parameter, counted as in
// Parameter::for_each_run. `tensor` must store all of them, at the places that `slice` describes.
// Throws ConfigError if the tensor's shape does not fit `slice`.
void read_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                 const TensorSlice& slice, Range here, const TakeValues& take);

// Reads as read_tensor() does, into `chunks`. Also throws IoError if a value is not finite.
void read_weights_of_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                            const TensorSlice& slice, Range here, memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
