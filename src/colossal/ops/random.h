// Random initial values of parameters. They do not depend on how a parameter is sharded: the
// numbers are counter-based (base/random.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "colossal/base/random.h"

namespace colossal::ops {

// Returns the random stream for the initial values of the parameter `name`. seed: of the job.
RandomKey parameter_stream(uint64_t seed, std::string_view name);

// Fills `values` with normal numbers with mean `mean` and standard deviation `deviation`: numbers
// [begin, begin + values.numel()) of `stream`. `values` is a contiguous slice of a flattened
// tensor, and `begin` is the index of the slice's first element in that tensor. So the slices of a
// tensor may be filled separately, with the same result. Numbers are computed in fp64 and rounded
// to the type of `values` (to bf16 by way of fp32). Throws InternalError if `values` is not
// contiguous or `begin` is negative.
void fill_normal(const at::Tensor& values, int64_t begin, RandomKey stream, double mean,
                 double deviation);

}  // namespace colossal::ops
