// Resolves the dtypes of a run: for computation, for master weights, and for gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace colossal {

struct PrecisionConfig {
  // Names of type_name(), or "auto".
  std::string compute = "auto";  // "auto": bf16 if the device has bf16 instructions, else fp32
  // "auto": fp32 if compute is bf16 and a step has several micro-batches, else the same as compute
  std::string gradients = "auto";
};

struct Precision {
  at::ScalarType compute = at::kFloat;
  at::ScalarType master = at::kFloat;
  at::ScalarType gradient = at::kFloat;
  bool operator==(const Precision&) const = default;
};

// Masters are fp64 if compute is fp64, else fp32. bf16_instructions: whether the device has them.
// micro_batches: number in a step of a replica. Throws ConfigError if a name is unknown, or if only
// one of compute and gradients is fp64.
Precision resolve_precision(const PrecisionConfig& config, bool bf16_instructions,
                            int64_t micro_batches);

const char* type_name(at::ScalarType type);  // "fp32", "bf16", "fp64"

}  // namespace colossal
