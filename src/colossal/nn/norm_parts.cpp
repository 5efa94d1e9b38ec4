#include "colossal/nn/norm_parts.h"

namespace colossal::nn {

NormParts::Tensors NormParts::use(LayerScope& scope) const {
  Tensors used;
  // First: the backward pass needs the weight only, which is then the one that is still here.
  if (bias) used.bias = bias.use(scope);
  if (weight) used.weight = weight.use(scope);
  return used;
}

}  // namespace colossal::nn
