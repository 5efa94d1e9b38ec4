// The settings and parameters of a norm layer. Builders fill in NormParts and pass it to the
// constructors of norm layers, dense or sharded.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "colossal/nn/parameter.h"

namespace colossal::nn {

struct NormParts {
  std::string name;          // full name of the layer
  bool centered = false;     // true: layer norm; false: RMS norm
  double epsilon = 0;        // added to the variance (layer norm) or to the mean square (RMS norm)
  bool unit_offset = false;  // true: multiply by 1 + weight
  int64_t features = 0;      // over all ranks
  ParameterHandle weight, bias;  // empty handles: the layer has no weight or no bias

  struct Tensors {
    at::Tensor weight, bias;  // undefined: the layer has no weight or no bias
  };
  // Returns the tensors to compute with, which stay on the device until `scope` ends.
  Tensors use(LayerScope& scope) const;
};

}  // namespace colossal::nn
