// LearnedScalar: a parameter of one number, such as the temperature of a contrastive loss.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "colossal/nn/builder.h"
#include "colossal/nn/layer_scope.h"

namespace colossal::nn {

// Parameter, which every rank holds: NAME.value, [] or [1].
class LearnedScalar {
 public:
  // shape: [] or [1]. value: of the number at first.
  LearnedScalar(Builder& build, const std::string& name, std::vector<int64_t> shape, double value)
      : value_(build.parameter(name, "value", std::move(shape), Initializer{.value = value},
                               build.used_alike())) {}

  // Returns the number, []. All ranks of tp must pass the same gradient to the backward pass.
  at::Tensor forward() const {
    LayerScope scope = scope_of(value_);
    return value_.use(scope).reshape({}).clone();  // the weight may be released after the scope
  }

 private:
  ParameterHandle value_;
};

}  // namespace colossal::nn
