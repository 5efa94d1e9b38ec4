// The settings and parameters of a norm layer, dense or sharded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "colossal/nn/parameter.h"

namespace colossal::nn {

struct NormParts {
  std::string name;       // full name of the layer
  bool centered = false;  // true: layer norm; false: RMS norm
  double epsilon = 0;
  bool unit_offset = false;
  int64_t features = 0;          // of the layer, over all ranks
  ParameterHandle weight, bias;  // empty handle: none

  struct Tensors {
    at::Tensor weight, bias;  // undefined: none
  };
  Tensors use(LayerScope& scope) const;
};

}  // namespace colossal::nn
