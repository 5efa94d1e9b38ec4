// Makes the initial values of a part of a parameter, bit for bit as in the serial run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/nn/parameter.h"

namespace colossal {

// values, flat <- elements [begin, begin + numel) of what is here of the parameter (its placement,
// the flattened local tensor), by its initializer: a normal number depends on the seed, the
// parameter's name and the element's index in the global tensor.
void fill_initial_values(const at::Tensor& values, const nn::Parameter& parameter, int64_t begin,
                         uint64_t seed);

}  // namespace colossal
