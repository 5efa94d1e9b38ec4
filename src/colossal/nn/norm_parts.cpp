#include "colossal/nn/norm_parts.h"

namespace colossal::nn {

NormParts::Tensors NormParts::use(LayerScope& scope) const {
  Tensors used;
  // The bias comes first: the backward pass needs only the weight, which is then the one that was
  // brought to the device last.
  if (bias) used.bias = bias.use(scope);
  if (weight) used.weight = weight.use(scope);
  return used;
}

}  // namespace colossal::nn
