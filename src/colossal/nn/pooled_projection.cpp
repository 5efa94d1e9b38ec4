#include "colossal/nn/pooled_projection.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "colossal/nn/builder.h"
#include "colossal/nn/layer_scope.h"

namespace colossal::nn {

PooledProjection::PooledProjection(Builder& build, const std::string& name,
                                   const PooledProjectionOptions& options)
    : options_(options), token_part_(build.token_part()), sum_of_parts_(build.sum_of_parts()) {
  const Placement of_activations = build.of_features(options.in_features);
  features_ = of_activations.held.empty() ? Range{0, options.in_features}
                                          : of_activations.held.front().front();
  if (options.out_features == 0) return;
  weight_ = build.parameter(name, "weight", {options.out_features, options.in_features},
                            options.initializer, build.used_alike());
  if (!options.bias) return;
  bias_ = build.parameter(name, "bias", {options.out_features}, Initializer::zeros(),
                          build.used_alike());
}

at::Tensor PooledProjection::pooled(const at::Tensor& x, const at::Tensor& pooling,
                                    const StepContext& context) const {
  const at::Tensor rows = at::arange(context.tokens().batch, pooling.options().dtype(at::kLong))
                              .unsqueeze(-1)
                              .expand({-1, context.tokens().sequence});
  const at::Tensor shares = (token_part_ ? token_part_(pooling, context) : pooling).to(x.dtype());
  const at::Tensor rows_here = token_part_ ? token_part_(rows, context) : rows;
  at::Tensor sums;
  at::Tensor rows_of_sums;
  if (x.dim() == 3) {  // whole sequences
    sums = at::matmul(shares.unsqueeze(1), x).squeeze(1);
    rows_of_sums = rows_here.select(1, 0).clone();  // saved for backward, without the other columns
  } else {
    sums = x * shares.unsqueeze(-1);
    rows_of_sums = rows_here;
  }
  if (features_.size() < options_.in_features) {
    sums = at::constant_pad_nd(sums, {features_.begin, options_.in_features - features_.end});
  }
  if (token_part_) {
    const at::Tensor none = at::zeros({context.tokens().batch, options_.in_features}, x.options());
    // index_add() takes no empty tensors; the sum of one keeps it in the graph.
    sums = sums.size(0) > 0 ? none.index_add(0, rows_of_sums, sums) : none + sums.sum();
  }
  return sum_of_parts_ ? sum_of_parts_(sums) : sums;
}

at::Tensor PooledProjection::forward(const at::Tensor& x, const at::Tensor& pooling,
                                     const StepContext& context) const {
  if (!weight_) return pooled(x, pooling, context);
  LayerScope scope = scope_of(weight_);
  const at::Tensor found = at::linear(pooled(x, pooling, context), weight_.use(scope));
  if (!bias_) return found;
  const at::Tensor share = pooling.sum(1, /*keepdim=*/true).to(x.dtype());
  return found + share * bias_.use(scope);
}

}  // namespace colossal::nn
