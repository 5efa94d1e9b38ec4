#include "colossal/nn/norm_parts.h"

namespace colossal::nn {

at::Tensor NormParts::use_weight(LayerScope& scope) const {
  return weight ? weight.use(scope) : at::Tensor();
}

at::Tensor NormParts::use_bias(LayerScope& scope) const {
  return bias ? bias.use(scope) : at::Tensor();
}

}  // namespace colossal::nn
