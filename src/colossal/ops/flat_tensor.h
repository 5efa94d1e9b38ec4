// Conversions of LibTorch's types and arguments to those of kernels, which work on plain memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "colossal/base/random.h"
#include "colossal/base/range.h"
#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops {

// Returns the kernels' name of a type. Throws InternalError unless it is fp64, fp32 or bf16.
kernels::ElementType element_type(at::ScalarType type);

// Returns the type in which kernels compute with elements of this type: fp64 for fp64, else fp32.
at::ScalarType compute_type(at::ScalarType type);

// Returns the sizes as text for messages, such as "[2, 3]".
std::string shape_text(const at::Tensor& tensor);

// Convert keys and runs to integers, which dispatcher operators accept, and back. A run becomes two
// integers, its begin and its end.
int64_t pack_key(RandomKey key);
RandomKey unpack_key(int64_t packed);
std::vector<int64_t> pack_runs(const std::vector<Range>& runs);
std::vector<Range> unpack_runs(at::IntArrayRef packed);

// The `grain` of a parallel_for() with little work per element.
inline constexpr int64_t kElementsPerThread = 1 << 14;

// Returns the rule by which kernels drop elements with this probability. Throws InternalError
// unless it is in [0, 1].
kernels::DropoutRule dropout_rule(double probability);

}  // namespace colossal::ops
