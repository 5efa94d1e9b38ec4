// Random tensors that no layout changes: see base/random.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "colossal/base/random.h"

namespace colossal::ops {

// The stream of a parameter's initial values.
RandomKey parameter_stream(uint64_t seed, std::string_view name);

// values <- elements [begin, begin + numel) of the stream's normal numbers, mean + deviation * z,
// computed in double, rounded to fp32 and from there to bf16 where that is the type. Any slices
// give together what the whole gives. values: contiguous; begin: index of the first one in the
// whole.
void fill_normal(const at::Tensor& values, int64_t begin, RandomKey stream, double mean,
                 double deviation);

}  // namespace colossal::ops
