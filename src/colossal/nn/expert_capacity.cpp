#include "colossal/nn/expert_capacity.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace colossal::nn {
namespace {

// Returns the rows for GatherTokenRows, [tokens, 2 + 2 * chosen]: the index of the sequence in the
// micro-batch, the index of the token among this rank's tokens of the sequence, the chosen experts,
// and their weights in multiples of 2^-16.
at::Tensor rows_of(const Routing& routing, const StepContext& context, int64_t first_token) {
  const at::Tensor token =
      at::arange(first_token, first_token + routing.experts.size(0), routing.experts.options());
  const at::Tensor sequence = token.div(context.tokens().sequence, "floor");
  const at::Tensor column = token - sequence * context.tokens().sequence;
  // Weights of equal tokens may differ by rounding errors, which depend on the layout. Coarser
  // rounding makes such weights equal, so that positions decide.
  constexpr double kSteps = 1 << 16;
  const at::Tensor weights = (routing.weights.detach().to(at::kDouble) * kSteps).round();
  return at::cat({sequence.unsqueeze(1).to(at::kDouble), column.unsqueeze(1).to(at::kDouble),
                  routing.experts.to(at::kDouble), weights},
                 1);
}

// Returns how many choices of the same group come before each choice: those with larger weights,
// and those with equal weights and earlier positions. All tensors: [choices]. groups: one number
// for each pair of sequence and expert. Uses stable sorts, from the least important key to the most
// important.
at::Tensor ranks_of(const at::Tensor& groups, const at::Tensor& weights,
                    const at::Tensor& positions) {
  at::Tensor order = at::argsort(positions, /*stable=*/true, 0, /*descending=*/false);
  order = order.index_select(
      0, at::argsort(weights.index_select(0, order), /*stable=*/true, 0, /*descending=*/true));
  order = order.index_select(
      0, at::argsort(groups.index_select(0, order), /*stable=*/true, 0, /*descending=*/false));
  const at::Tensor sorted = groups.index_select(0, order).contiguous();
  const at::Tensor first = at::searchsorted(sorted, sorted);
  const at::Tensor rank = at::arange(sorted.size(0), first.options()) - first;
  return at::empty_like(rank).scatter_(0, order, rank);
}

}  // namespace

int64_t capacity_of(const RouterOptions& options, int64_t positions) {
  const double share =
      static_cast<double>(positions * options.chosen) / static_cast<double>(options.experts);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(options.capacity_factor * share)));
}

at::Tensor within_capacity(const Routing& routing, const RouterOptions& options,
                           const StepContext& context, int64_t first_token,
                           const GatherTokenRows& share) {
  const at::Tensor own = rows_of(routing, context, first_token);
  const GatheredTokenRows shared =
      share ? share(own, context.tokens().whole_sequence) : GatheredTokenRows{own};
  if (own.is_meta()) return routing.experts;
  const int64_t chosen = options.chosen;
  const auto of_choices = [&](int64_t column) {
    return shared.rows.narrow(1, column, 1).expand({-1, chosen}).flatten();
  };
  const at::Tensor experts = shared.rows.narrow(1, 2, chosen).flatten();
  const at::Tensor groups = of_choices(0) * static_cast<double>(options.experts) + experts;
  const at::Tensor ranks = ranks_of(groups, shared.rows.narrow(1, 2 + chosen, chosen).flatten(),
                                    of_choices(kPositionColumn));
  const at::Tensor is_dropped = ranks.ge(capacity_of(options, context.tokens().whole_sequence))
                                    .view({-1, chosen})
                                    .narrow(0, shared.first, own.size(0));
  return routing.experts.masked_fill(is_dropped, options.experts);
}

}  // namespace colossal::nn
