// FeatureScale: a learned factor for each feature (H. Touvron et al., "Going Deeper with Image
// Transformers", 2021, section 2.1: LayerScale).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "colossal/nn/builder.h"
#include "colossal/nn/layer_scope.h"

namespace colossal::nn {

// Parameter: NAME.weight [features].
class FeatureScale {
 public:
  // value: of each factor at first.
  FeatureScale(Builder& build, const std::string& name, int64_t features, double value)
      : weight_(build.parameter(name, "weight", {features}, Initializer{.value = value},
                                build.of_features(features))) {}

  // x: an activation between pairs of linear layers. Returns x * weight.
  at::Tensor forward(const at::Tensor& x) const {
    LayerScope scope = scope_of(weight_);
    return x * weight_.use(scope);
  }

 private:
  ParameterHandle weight_;  // this rank's features
};

}  // namespace colossal::nn
