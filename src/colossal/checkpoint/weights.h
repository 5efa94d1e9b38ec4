// Reads tensors of Hugging Face folders and of checkpoints: of each tensor only the byte ranges of
// the elements that this rank keeps, at most 64 MiB at once.
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

// Returns where files hold a parameter.
using SliceOf = std::function<TensorSlice(const std::string& parameter)>;

// Says what a tensor is that belongs to no parameter: nothing if that is unknown, "" if it is not
// needed, else the name of the tensor of which it must be a copy.
using SpareTensor = std::function<std::optional<std::string>(const std::string& name)>;

// What is here of a parameter, of its local shape and in the file's type.
struct WeightsHere {
  at::Tensor numbers;
  // If the file holds products' weights in few bits, and these are asked for: how, and the scales
  // and zeros of groups, of the same shape but for the inputs, of which there is one for each
  // group. zeros: undefined where there are none.
  std::optional<ops::Quantization> stored{};
  at::Tensor scales{}, zeros{};
};

// Parameters that have no place in chunks: each is given whole as soon as it is read.
struct ReadApart {
  nn::ParameterList parameters{};
  std::function<void(nn::Parameter& parameter, const WeightsHere& weights)> take{};
  bool as_stored = false;  // give scales and zeros, too, of parameters with stored_quantization()
};

// Weights that are not kept as files have them.
struct ChangedWeights {
  std::function<bool(const nn::Parameter& parameter)> applies{};
  // Takes what is here of a weight, of its local shape and in the file's type, and returns what is
  // kept.
  std::function<at::Tensor(const nn::Parameter& parameter, const at::Tensor& here)> change{};
};

// Finds a tensor by its name, or by its name without the first part ("transformer."), as bare
// models are saved. Throws ConfigError where there is neither.
io::TensorDirectory::Tensor find_weight(const WeightFolder& folder, const std::string& name);

// The shape of a tensor, found so, in which its numbers are read.
std::vector<int64_t> weight_shape(const WeightFolder& folder, const std::string& name);

// Reads a whole tensor, found so, as numbers in a type that has them.
at::Tensor read_weight(const WeightFolder& folder, const std::string& name);

// Reads what is here of a parameter, of its local shape, as numbers in a type that has them.
at::Tensor read_parameter(const WeightFolder& folder, const nn::Parameter& parameter,
                          const TensorSlice& slice);

// How a folder holds the weights of a product, or of a stack of them, in few bits in which products
// can use them; nothing where it holds numbers, or holds them otherwise.
std::optional<ops::Quantization> stored_quantization(const WeightFolder& folder,
                                                     const nn::Parameter& parameter,
                                                     const TensorSlice& slice);

// Reads the weights of `parameters`, which are among those of `chunks`, from a folder. Tensors are
// found as by find_weight(). Throws ConfigError naming a tensor that is missing or of another
// shape, or that would not be read: one that belongs to no parameter of `chunks` or `apart` and is
// not spare. Throws IoError naming one that holds numbers which are not finite.
void read_weights(
    const std::filesystem::path& folder, const nn::ParameterList& parameters,
    memory::ChunkEngine& chunks, const SliceOf& slice_of,
    const SpareTensor& spare = [](const std::string&) { return std::nullopt; },
    const ReadApart& apart = {}, const ChangedWeights& changed = {});

// Reads from one file the weights of those `parameters` that it holds. It may hold no others, but
// for those that are spare. Throws as read_weights() does.
void read_weights_of_file(
    const std::filesystem::path& file, const nn::ParameterList& parameters,
    memory::ChunkEngine& chunks, const SliceOf& slice_of,
    const std::function<bool(const std::string& tensor)>& spare = [](const std::string&) {
      return false;
    });

// Flat values from element `begin` on, in the file's type.
using TakeValues = std::function<void(int64_t begin, const at::Tensor& values)>;

// One of the tensors that hold a parameter, and the elements of `here` that it holds, counted as
// read_tensor() counts them.
struct TensorPart {
  std::string name;
  Range here;
};
// Returns them in the order of TensorSlice::names(), those that hold none of `here` included.
std::vector<TensorPart> tensor_parts(const TensorSlice& slice, const nn::Parameter& parameter,
                                     Range here);

// Elements `here` of a parameter, counted as they lie here (Parameter::for_each_run), of which
// `tensor` holds all as `slice` says. Throws ConfigError where the tensor's shape is not
// what the slice needs.
void read_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                 const TensorSlice& slice, Range here, const TakeValues& take);

// The same into `chunks`. Throws IoError too, where a number among them is not finite.
void read_weights_of_tensor(const StoredTensor& tensor, const nn::Parameter& parameter,
                            const TensorSlice& slice, Range here, memory::ChunkEngine& chunks);

}  // namespace colossal::checkpoint
