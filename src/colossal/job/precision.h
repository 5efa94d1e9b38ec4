// Resolves the section [precision] of a run.toml to the dtypes of a run: for computation, for
// master weights, and for gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace colossal {

// The keys of [precision]. Each is "fp32", "bf16", "fp64" or "auto".
struct PrecisionConfig {
  std::string compute = "auto";  // "auto": bf16 if the device has bf16 instructions, else fp32
  // "auto": fp32 if compute is bf16 and a step has several micro-batches, else the same as compute
  std::string gradients = "auto";
};

struct Precision {
  at::ScalarType compute = at::kFloat;   // dtype of working weights, activations and products
  at::ScalarType master = at::kFloat;    // dtype of the weights that the optimizer updates
  at::ScalarType gradient = at::kFloat;  // dtype in which gradients are accumulated and reduced
  bool operator==(const Precision&) const = default;
};

// Returns the dtypes for `config`. Masters are fp64 if compute is fp64, else fp32.
// bf16_instructions: whether the device has instructions for bf16 products. micro_batches: number
// of micro-batches of a replica in a step. Throws ConfigError if a name is unknown, or if only one
// of compute and gradients is fp64.
Precision resolve_precision(const PrecisionConfig& config, bool bf16_instructions,
                            int64_t micro_batches);

// Returns "fp32", "bf16" or "fp64"; "?" for any other dtype.
const char* type_name(at::ScalarType type);

}  // namespace colossal
