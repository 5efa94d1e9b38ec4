// Parameters without memory, for dry runs.
#pragma once

#include <c10/core/ScalarType.h>

#include "colossal/nn/parameter.h"

namespace colossal {

// Gives each parameter a meta tensor of its stored shape, in the type in which it is stored if the
// model computes in `compute`.
void make_meta_tensors(const nn::ParameterList& parameters, at::ScalarType compute);

}  // namespace colossal
