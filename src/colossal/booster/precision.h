// Resolves the types in which a run computes, keeps and sends.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace colossal {

struct PrecisionConfig {
  std::string compute = "auto";    // "auto": bf16 where the CPU multiplies bf16, else fp32
  std::string gradients = "auto";  // "auto": bf16 with one micro-batch a step, fp32 with more
};

struct Precision {
  at::ScalarType compute = at::kFloat;
  at::ScalarType master = at::kFloat;
  at::ScalarType gradient = at::kFloat;
  bool operator==(const Precision&) const = default;
};

// Throws ConfigError for unknown names, or for a gradient type that loses what compute has (nothing
// in an fp64 run is narrower).
Precision resolve_precision(const PrecisionConfig& config, bool bf16_instructions,
                            int64_t micro_batches);

const char* type_name(at::ScalarType type);  // "fp32", "bf16", "fp64"

}  // namespace colossal
