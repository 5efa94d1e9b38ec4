// Gives the parameters of a model tensors on device meta, which have no memory, for dry runs that
// only need dtypes and shapes.
#pragma once

#include <c10/core/ScalarType.h>

#include "colossal/nn/parameter.h"

namespace colossal {

// Sets Parameter::tensor of each parameter to a meta tensor with the shape
// Parameter::stored_shape() and the dtype Parameter::stored_type(compute). compute: dtype in which
// the model computes.
void make_meta_tensors(const nn::ParameterList& parameters, at::ScalarType compute);

}  // namespace colossal
