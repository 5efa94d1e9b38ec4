#include "colossal/nn/pooled_projection.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include "colossal/nn/layer_scope.h"

namespace colossal::nn {

at::Tensor PooledProjection::pooled(const at::Tensor& x, const at::Tensor& pooling,
                                    const StepContext& context) const {
  const auto& [options, weight, bias, features, token_part, sum_of_parts] = parts_;
  const at::Tensor rows = at::arange(context.tokens().batch, pooling.options().dtype(at::kLong))
                              .unsqueeze(-1)
                              .expand({-1, context.tokens().sequence});
  const at::Tensor shares = (token_part ? token_part(pooling, context) : pooling).to(x.dtype());
  const at::Tensor rows_here = token_part ? token_part(rows, context) : rows;
  at::Tensor sums;
  at::Tensor rows_of_sums;
  if (x.dim() == 3) {  // whole sequences
    sums = at::matmul(shares.unsqueeze(1), x).squeeze(1);
    rows_of_sums = rows_here.select(1, 0).clone();  // saved for backward, without the other columns
  } else {
    sums = x * shares.unsqueeze(-1);
    rows_of_sums = rows_here;
  }
  if (features.size() < options.in_features) {
    sums = at::constant_pad_nd(sums, {features.begin, options.in_features - features.end});
  }
  if (token_part) {
    const at::Tensor none = at::zeros({context.tokens().batch, options.in_features}, x.options());
    // index_add() takes no empty tensors; the sum of one keeps it in the graph.
    sums = sums.size(0) > 0 ? none.index_add(0, rows_of_sums, sums) : none + sums.sum();
  }
  return sum_of_parts ? sum_of_parts(sums) : sums;
}

at::Tensor PooledProjection::forward(const at::Tensor& x, const at::Tensor& pooling,
                                     const StepContext& context) const {
  if (!parts_.weight) return pooled(x, pooling, context);
  LayerScope scope = scope_of(parts_.weight);
  const at::Tensor found = at::linear(pooled(x, pooling, context), parts_.weight.use(scope));
  if (!parts_.bias) return found;
  const at::Tensor share = pooling.sum(1, /*keepdim=*/true).to(x.dtype());
  return found + share * parts_.bias.use(scope);
}

}  // namespace colossal::nn
