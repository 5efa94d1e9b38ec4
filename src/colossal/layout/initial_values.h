// Computes the initial values of this rank's shard of a parameter, for training from scratch. The
// values have the same bits for any number of ranks and any sharding.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/nn/parameter.h"

namespace colossal {

// Fills `values` (one-dimensional, contiguous, fp64, fp32 or bf16) with the initial values of
// elements [begin, begin + values.numel()) of this rank's flattened shard (see
// nn::Placement::held), according to parameter.initializer. A random value depends only on the
// seed, the parameter's name and the element's index in the global tensor.
void fill_initial_values(const at::Tensor& values, const nn::Parameter& parameter, int64_t begin,
                         uint64_t seed);

}  // namespace colossal
