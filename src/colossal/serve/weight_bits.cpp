#include "colossal/serve/weight_bits.h"

#include "colossal/base/error.h"

namespace colossal::serve {

ops::Quantization resolve_quantization(const std::string& type, std::optional<int64_t> group,
                                       const QuantizationNames& names) {
  using Type = ops::Quantization::Type;
  ops::Quantization quantization;
  if (type == "int4") {
    quantization = {.type = Type::int4, .group = kInt4Group, .zero_point = true};
  } else if (type == "fp8") {
    quantization.type = Type::fp8;
  } else if (type == "int8-dynamic") {
    quantization.activations = ops::Activations::int8;
  } else if (type != "int8") {
    throw ConfigError(fmt::format("{}={}: must be auto, none, int8, int4, fp8 or int8-dynamic",
                                  names.type, type));
  }
  quantization.group = group.value_or(quantization.group);
  if (quantization.group < 0 || quantization.group % ops::Quantization::kGroupStep != 0) {
    throw ConfigError(fmt::format("{}={}: must be 0 (all inputs of an output) or a multiple of {}",
                                  names.group, quantization.group, ops::Quantization::kGroupStep));
  }
  return quantization;
}

WeightBits resolve_weight_bits(const std::string& type, std::optional<int64_t> group,
                               const QuantizationNames& names) {
  if (type != "auto" && type != "none") {
    return {.quantization = resolve_quantization(type, group, names)};
  }
  if (group) {
    throw ConfigError(fmt::format("{0} without {1}: also give {1}=int8, {1}=int4 or {1}=fp8",
                                  names.group, names.type));
  }
  return {.as_stored = type == "auto"};
}

}  // namespace colossal::serve
