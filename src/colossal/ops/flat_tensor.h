// Conversions of tensors and types for kernels over plain memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "colossal/base/random.h"
#include "colossal/base/range.h"
#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops {

// Throws InternalError for a type that the kernels do not support.
kernels::ElementType element_type(at::ScalarType type);

// Returns the type in which kernels compute with elements of this type: fp64 for fp64, else fp32.
at::ScalarType compute_type(at::ScalarType type);

// "[2, 3]", for messages.
std::string shape_text(const at::Tensor& tensor);

// Convert keys and runs to and from the integers that dispatcher operators accept (a run as its
// begin and its end).
int64_t pack_key(RandomKey key);
RandomKey unpack_key(int64_t packed);
std::vector<int64_t> pack_runs(const std::vector<Range>& runs);
std::vector<Range> unpack_runs(at::IntArrayRef packed);

// Grain size of parallel loops with little work per element: the fewest elements for one thread.
inline constexpr int64_t kElementsPerThread = 1 << 14;

// Returns the rule that drops an element with this probability, in [0, 1].
kernels::DropoutRule dropout_rule(double probability);

}  // namespace colossal::ops
