// LearnedScalar: a parameter of one number, such as the temperature of a contrastive loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Parameter, which every rank holds: NAME.value, [] or [1].
class LearnedScalar {
 public:
  explicit LearnedScalar(ParameterHandle value) : value_(std::move(value)) {}

  // Returns the number, []. All ranks of tp must pass the same gradient to the backward pass.
  at::Tensor forward() const {
    LayerScope scope = scope_of(value_);
    return value_.use(scope).reshape({}).clone();  // the weight may be released after the scope
  }

 private:
  ParameterHandle value_;
};

}  // namespace colossal::nn
