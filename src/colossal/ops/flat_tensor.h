// Views of tensors for kernels over plain memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "colossal/base/random.h"
#include "colossal/base/range.h"
#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops {

// Throws InternalError for a type that the kernels don't know.
kernels::ElementType element_type(at::ScalarType type);

// The type in which numbers of this type are computed: fp64 for fp64, else fp32.
at::ScalarType compute_type(at::ScalarType type);

// "[2, 3]", for messages.
std::string shape_text(const at::Tensor& tensor);

// Keys and runs as the integers that operators of the dispatcher take (a run as begin and end), and
// back.
int64_t pack_key(RandomKey key);
RandomKey unpack_key(int64_t packed);
std::vector<int64_t> pack_runs(const std::vector<Range>& runs);
std::vector<Range> unpack_runs(at::IntArrayRef packed);

// The fewest numbers for one thread in loops that do little with each.
inline constexpr int64_t kElementsPerThread = 1 << 14;

// The rule that drops a number with this probability, in [0, 1].
kernels::DropoutRule dropout_rule(double probability);

}  // namespace colossal::ops
