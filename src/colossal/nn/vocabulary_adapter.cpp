#include "colossal/nn/vocabulary_adapter.h"

#include <ATen/ATen.h>

#include "colossal/ops/fused_linear.h"

namespace colossal::nn {

at::Tensor EmbeddingAdapter::add(const at::Tensor& found, const at::Tensor& tokens, Range rows,
                                 Range features, const StepContext& context) const {
  if (!up_ || !context.adapted) return found;
  LayerScope scope = scope_of(down_);
  // A rank without rows uses A and B all the same, as those with whom it shares them out do.
  const Range searched = rows.empty() ? Range{0, 1} : rows;
  const at::Tensor local = tokens - rows.begin;
  const at::Tensor elsewhere = local.lt(0).bitwise_or_(local.ge(rows.size()));
  const at::Tensor z =
      at::embedding(down_.use(scope).t().narrow(0, searched.begin, searched.size()),
                    local.masked_fill(elsewhere, 0))
          .masked_fill(elsewhere.unsqueeze(-1), 0);
  const at::Tensor up = up_.use(scope).narrow(0, features.begin, features.size());
  return found + at::matmul(z, up.t()) * scale_;
}

at::Tensor HeadAdapter::narrowed(const at::Tensor& x, const StepContext& context,
                                 LayerScope& scope) const {
  at::Tensor dropped = x;
  if (dropout_ && context.training) {
    const int64_t sequences = x.numel() / (context.sequence * x.size(-1));
    dropped =
        dropout_->forward(x.view({sequences, context.sequence, x.size(-1)}), context).view_as(x);
  }
  return ops::fused_linear(dropped, {{down_.use(scope)}, {}}) * scale_;
}

at::Tensor HeadAdapter::up(Range rows, LayerScope& scope) const {
  return up_.use(scope).narrow(0, rows.begin, rows.size());
}

}  // namespace colossal::nn
