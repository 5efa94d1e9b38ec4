// The parts of which a norm's layer is made, dense or sharded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "colossal/nn/parameter.h"

namespace colossal::nn {

struct NormParts {
  std::string name;       // of the layer
  bool centered = false;  // a layer norm, else an RMS norm
  double epsilon = 0;
  bool unit_offset = false;
  int64_t features = 0;          // of all ranks
  ParameterHandle weight, bias;  // empty: none

  struct Tensors {
    at::Tensor weight, bias;  // undefined: none
  };
  Tensors use(LayerScope& scope) const;
};

}  // namespace colossal::nn
