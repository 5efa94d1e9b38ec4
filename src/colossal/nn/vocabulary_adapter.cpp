#include "colossal/nn/vocabulary_adapter.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "colossal/ops/product/fused_linear.h"
#include "colossal/ops/product/low_rank.h"

namespace colossal::nn {
namespace {

// Returns A^T[tokens] B^T for the tokens that are in `rows`, and zeros for the others: [.., number
// of features]. tokens: [..].
at::Tensor looked_up(const at::Tensor& down, const at::Tensor& up, const at::Tensor& tokens,
                     Range rows, Range features) {
  // A rank without rows uses A and B, too: its gradients are zeros, but it records the same graph
  // as the ranks with which it reduces them.
  const Range searched = rows.empty() ? Range{0, 1} : rows;
  const at::Tensor local = tokens - rows.begin;
  const at::Tensor elsewhere = local.lt(0).bitwise_or_(local.ge(rows.size()));
  const at::Tensor z = at::embedding(down.t().narrow(0, searched.begin, searched.size()),
                                     local.masked_fill(elsewhere, 0))
                           .masked_fill(elsewhere.unsqueeze(-1), 0);
  return ops::fused_linear(z, {{up.narrow(0, features.begin, features.size())}, {}});
}

}  // namespace

at::Tensor EmbeddingAdapter::add(const at::Tensor& found, const at::Tensor& tokens, Range rows,
                                 Range features, const StepContext& context) const {
  at::Tensor sum = found;
  for (const auto& [adapter, begin, count] : context.services.adapted_rows) {
    const auto requested = adapter->products.find(name_);
    if (requested == adapter->products.end()) continue;
    if (sum.is_same(found)) sum = found.clone();
    const at::Tensor added = looked_up(requested->second.down, requested->second.up,
                                       tokens.flatten().narrow(0, begin, count), rows, features);
    sum.flatten(0, -2).narrow(0, begin, count).add_(added, requested->second.scale);
  }
  if (!up_ || !context.adapted) return sum;
  LayerScope scope = scope_of(down_);
  return sum + looked_up(down_.use(scope), up_.use(scope), tokens, rows, features) * scale_;
}

at::Tensor HeadAdapter::down_projected(const at::Tensor& x, const StepContext& context,
                                       LayerScope& scope) const {
  at::Tensor dropped = x;
  if (dropout_ && context.training) {
    const int64_t sequences = x.numel() / (context.tokens().sequence * x.size(-1));
    dropped = dropout_->forward(x.view({sequences, context.tokens().sequence, x.size(-1)}), context)
                  .view_as(x);
  }
  return ops::fused_linear(dropped, {{down_.use(scope)}, {}}) * scale_;
}

at::Tensor HeadAdapter::up(Range rows, LayerScope& scope) const {
  return up_.use(scope).narrow(0, rows.begin, rows.size());
}

void HeadAdapter::add_request_adapters(const at::Tensor& products, const at::Tensor& x, Range rows,
                                       const at::Tensor& wanted, const StepContext& context) const {
  for (const auto& [adapter, begin, count] : context.services.adapted_rows) {
    const auto requested = adapter->products.find(name_);
    if (requested == adapter->products.end()) continue;
    int64_t first = begin, end = begin + count;
    if (wanted.defined()) {
      const auto* tokens = wanted.const_data_ptr<int64_t>();
      const auto place = [&](int64_t token) {
        return std::lower_bound(tokens, tokens + wanted.numel(), token) - tokens;
      };
      first = place(begin);
      end = place(begin + count);
    }
    if (first == end) continue;
    const at::Tensor z =
        ops::fused_linear(x.narrow(0, first, end - first), {{requested->second.down}, {}});
    ops::add_low_rank(products.narrow(0, first, end - first), z,
                      {{requested->second.up.narrow(0, rows.begin, rows.size()), rows.size(), 0,
                        requested->second.scale}});
  }
}

}  // namespace colossal::nn
