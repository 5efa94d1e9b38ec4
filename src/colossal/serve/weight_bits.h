// How the weights of linear layers are held in memory, as a user asks for it: `--quantize` of the
// commands, `quantization` in Python.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::serve {

struct WeightBits {
  // How weights are quantized while they are read; nullopt: they are not.
  std::optional<ops::Quantization> quantization;
  // Whether weights that the folder stores quantized stay quantized. If false, they are
  // dequantized. Used only if `quantization` is nullopt. See InferenceOptions.
  bool as_stored = false;
};

// The names of the two settings, for messages: "--quantize" and "--quantize-group".
struct QuantizationNames {
  std::string type, group;
};

// int4 without another group: input features that share a scale.
inline constexpr int64_t kInt4Group = 64;

// Returns the quantization that `type` names: int8, int4, fp8 or int8-dynamic. group: input
// features that share a scale, 0: all; nullopt: the default of the type. Throws ConfigError,
// listing the supported values, if `type` or `group` is unsupported.
ops::Quantization resolve_quantization(const std::string& type, std::optional<int64_t> group,
                                       const QuantizationNames& names);
// Also takes the types auto (weights stay as the folder stores them) and none (weights that the
// folder stores quantized are dequantized). Throws ConfigError under the conditions of
// resolve_quantization(), and if `group` is given but `type` is auto or none.
WeightBits resolve_weight_bits(const std::string& type, std::optional<int64_t> group,
                               const QuantizationNames& names);

}  // namespace colossal::serve
