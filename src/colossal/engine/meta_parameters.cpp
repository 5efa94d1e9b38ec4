#include "colossal/engine/meta_parameters.h"

#include <ATen/ops/empty.h>

namespace colossal {

void make_meta_tensors(const nn::ParameterList& parameters, at::ScalarType compute) {
  for (const nn::ParameterHandle& parameter : parameters) {
    parameter->tensor =
        at::empty(parameter->stored_shape(),
                  at::TensorOptions(parameter->stored_type(compute)).device(at::kMeta));
  }
}

}  // namespace colossal
