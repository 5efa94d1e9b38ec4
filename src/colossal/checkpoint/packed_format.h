// Encodes quantized weights for folders in published formats: says which tensors a folder stores
// for a weight, and computes their values. The caller writes the files. packed_integers.h and
// stored_tensor.h read them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/io/safetensors.h"
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::checkpoint {

// A weight that is to be quantized.
struct QuantizedTensor {
  ops::Quantization how;
  int64_t outputs = 0, inputs = 0;

  bool operator==(const QuantizedTensor&) const = default;
};
// By the name of the unquantized tensor in the source folder: "model.layers.0.mlp.up_proj.weight".
using QuantizedTensors = std::map<std::string, QuantizedTensor>;

// The values of a quantized weight, one byte for each code (ops::unpacked_codes).
struct UnpackedMatrix {
  at::Tensor codes;   // uint8 [outputs, inputs]
  at::Tensor scales;  // fp32 [outputs, groups]
  at::Tensor zeros;   // uint8 [outputs, groups]; undefined without zero points
};

class PackedFormat {
 public:
  virtual ~PackedFormat() = default;

  // Throws ConfigError if the format cannot hold these weights in one folder.
  virtual void require_writable(const QuantizedTensors& quantized) const = 0;

  // Returns the tensors that replace the weight `name`. type: dtype of the unquantized weight in
  // its file; the dtype of the scales may depend on it.
  virtual std::vector<io::TensorSpec> tensors_of(const std::string& name,
                                                 const QuantizedTensor& weight,
                                                 io::ScalarType type) const = 0;
  // Returns the values of the tensors that tensors_of() returns for the same `weight` and `type`:
  // in the same order, with the same dtypes and shapes, contiguous.
  virtual std::vector<at::Tensor> encode(const UnpackedMatrix& matrix,
                                         const QuantizedTensor& weight,
                                         io::ScalarType type) const = 0;

  // Returns the field quantization_config of config.json. unquantized: names of the modules with a
  // weight of two dims that is not quantized.
  virtual nlohmann::ordered_json config(const QuantizedTensors& quantized,
                                        const std::vector<std::string>& unquantized) const = 0;
};

// compressed-tensors, for models whose products are torch.nn.Linear: integers as "pack-quantized",
// E4M3 as "float-quantized". transformers and vLLM read it.
std::unique_ptr<PackedFormat> compressed_tensors_format();
// GPTQ's format, for models whose products are transformers' Conv1D. Loaders of this format
// (optimum with GPT-QModel for transformers) put quantized layers in place of Conv1D, too, not only
// in place of torch.nn.Linear. The format holds integers only. All weights of a folder must have
// the same number of bits and the same group size, and their numbers of inputs and outputs must be
// multiples of 32. checkpoint_format in config.json is "gptq" without zero points, and "gptq_v2"
// with zero points.
std::unique_ptr<PackedFormat> gptq_format();

}  // namespace colossal::checkpoint
