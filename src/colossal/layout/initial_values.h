// Computes the initial values of a shard of a parameter. They are bit-identical for any number of
// ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/nn/parameter.h"

namespace colossal {

// Fills `values` with the initial values of elements [begin, begin + values.numel()) of this rank's
// flattened shard (see nn::Placement), as the parameter's initializer says. A random value depends
// only on the seed, the parameter's name and the element's index in the global tensor. values:
// one-dimensional, contiguous.
void fill_initial_values(const at::Tensor& values, const nn::Parameter& parameter, int64_t begin,
                         uint64_t seed);

}  // namespace colossal
