// FeatureScale: a learned factor for each feature (H. Touvron et al., "Going Deeper with Image
// Transformers", 2021, section 2.1: LayerScale).
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Parameter: NAME.weight [features].
class FeatureScale {
 public:
  explicit FeatureScale(ParameterHandle weight) : weight_(std::move(weight)) {}

  // x: an activation between pairs of linear layers. Returns x * weight.
  at::Tensor forward(const at::Tensor& x) const {
    LayerScope scope = scope_of(weight_);
    return x * weight_.use(scope);
  }

 private:
  ParameterHandle weight_;  // this rank's features
};

}  // namespace colossal::nn
