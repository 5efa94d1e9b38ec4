// LearnedToken: a token that is a parameter, the same in all rows, which layers read in the place
// of an activation.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <cstdint>
#include <string>

#include "colossal/nn/builder.h"
#include "colossal/nn/layer_scope.h"

namespace colossal::nn {

// Parameter: NAME.value [1, 1, features]. Written once for all tensor modes.
class LearnedToken {
 public:
  LearnedToken(Builder& build, const std::string& name, int64_t features,
               const Initializer& initializer)
      : value_(build.parameter(name, "value", {1, 1, features}, initializer,
                               build.of_features({1, 1, features}, 2))),
        token_part_(build.token_part()) {}

  // Returns the token at each position of the context, as an activation between blocks.
  at::Tensor forward(const StepContext& context) const {
    LayerScope scope = scope_of(value_);
    const at::Tensor value = value_.use(scope).flatten();
    const at::Tensor all =
        at::ones({context.tokens().batch, context.tokens().sequence}, value.options());
    return (token_part_ ? token_part_(all, context) : all).unsqueeze(-1) * value;
  }

 private:
  ParameterHandle value_;  // this rank's features
  TokenPart token_part_;
};

}  // namespace colossal::nn
