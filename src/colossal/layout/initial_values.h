// Computes the initial values of a shard of a parameter, bit-identical to those of a run on one
// rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/nn/parameter.h"

namespace colossal {

// values <- elements [begin, begin + numel) of this rank's flattened shard of the parameter (see
// nn::Placement), by the parameter's initializer. A normal number depends only on the seed, the
// parameter's name and the element's index in the global tensor. values: one-dimensional.
void fill_initial_values(const at::Tensor& values, const nn::Parameter& parameter, int64_t begin,
                         uint64_t seed);

}  // namespace colossal
