// Random tensors whose values do not depend on the layout; see base/random.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "colossal/base/random.h"

namespace colossal::ops {

// Returns the random stream of a parameter's initial values.
RandomKey parameter_stream(uint64_t seed, std::string_view name);

// values <- elements [begin, begin + numel) of the stream's normal numbers, mean + deviation * z,
// computed in fp64 and rounded to values' type (to bf16 by way of fp32). Slices filled separately
// equal the whole filled at once. values: contiguous; begin: index of its first element in the
// whole tensor.
void fill_normal(const at::Tensor& values, int64_t begin, RandomKey stream, double mean,
                 double deviation);

}  // namespace colossal::ops
