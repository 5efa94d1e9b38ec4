// Random tensors whose values do not depend on how they are sharded; see base/random.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "colossal/base/random.h"

namespace colossal::ops {

// Returns the random stream of a parameter's initial values.
RandomKey parameter_stream(uint64_t seed, std::string_view name);

// Fills `values`, a slice of a tensor, with normal numbers of this mean and standard deviation:
// numbers [begin, begin + values.numel()) of the stream, computed in fp64 and rounded to the type
// of `values` (to bf16 by way of fp32). So slices that are filled separately equal the tensor
// filled at once. values: contiguous. begin: index of its first element in the tensor. Throws
// InternalError if `values` is not contiguous or `begin` is negative.
void fill_normal(const at::Tensor& values, int64_t begin, RandomKey stream, double mean,
                 double deviation);

}  // namespace colossal::ops
