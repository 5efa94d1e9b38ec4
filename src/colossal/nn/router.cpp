#include "colossal/nn/router.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>

#include <limits>

#include "colossal/ops/product/fused_linear.h"

namespace colossal::nn {
namespace {

// Returns the indices of the `count` largest scores along the last dim, the largest first. The sort
// is stable, so that equal scores give the same choice for every token.
at::Tensor largest(const at::Tensor& scores, int64_t count) {
  return std::get<1>(at::sort(scores, /*stable=*/true, -1, /*descending=*/true))
      .narrow(-1, 0, count)
      .contiguous();
}

// Returns the scores, with -infinity for experts outside the best groups. 0 would not do, because
// it is above negative scores.
at::Tensor within_best_groups(const at::Tensor& scores, const RouterOptions& options) {
  const at::Tensor by_group = scores.unflatten(1, {options.groups, -1});
  const at::Tensor of_groups =
      by_group.gather(2, largest(by_group, options.best_of_group)).sum(-1);  // [tokens, groups]
  at::Tensor is_left_out = at::ones_like(of_groups, of_groups.options().dtype(at::kBool));
  is_left_out.scatter_(1, largest(of_groups, options.chosen_groups), false);
  return by_group.masked_fill(is_left_out.unsqueeze(-1), -std::numeric_limits<double>::infinity())
      .flatten(1);
}

at::Tensor scores_of(const at::Tensor& logits, RouterOptions::Scores kind) {
  switch (kind) {
    case RouterOptions::Scores::softmax:
      return at::softmax(logits, -1);
    case RouterOptions::Scores::sigmoid:
      return at::sigmoid(logits);
    case RouterOptions::Scores::softmax_of_chosen:
      break;
  }
  return logits;
}

}  // namespace

Routing choose_experts(const at::Tensor& logits, const at::Tensor& correction_bias,
                       const RouterOptions& options) {
  const at::Tensor scores = scores_of(logits, options.scores);
  at::Tensor to_choose_by = scores.detach();
  if (correction_bias.defined()) to_choose_by = to_choose_by + correction_bias.detach();
  if (options.groups > 1) to_choose_by = within_best_groups(to_choose_by, options);
  Routing routing{.experts = largest(to_choose_by, options.chosen), .weights = {}};
  routing.weights = scores.gather(1, routing.experts);
  if (options.scores == RouterOptions::Scores::softmax_of_chosen) {
    routing.weights = at::softmax(routing.weights, -1);
  }
  if (options.normalized) {
    // 1e-20, because all sigmoids may be 0 if the logits are very negative.
    routing.weights = routing.weights / (routing.weights.sum(-1, /*keepdim=*/true) + 1e-20);
  }
  if (options.scale != 1) routing.weights = routing.weights * options.scale;
  return routing;
}

namespace {

at::Tensor probabilities_of(const at::Tensor& logits, RouterOptions::Scores kind) {
  if (kind != RouterOptions::Scores::sigmoid) return at::softmax(logits, -1);
  const at::Tensor scores = at::sigmoid(logits);
  return scores / (scores.sum(-1, /*keepdim=*/true) + 1e-20);
}

}  // namespace

Routing Router::route(const at::Tensor& x, bool for_losses) const {
  LayerScope scope = scope_of(weight_);
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto wide = [&](const ParameterHandle& parameter) {
    return parameter ? parameter.use(scope).to(type) : at::Tensor();
  };
  std::vector<at::Tensor> biases;
  if (bias_) biases.push_back(wide(bias_));
  const at::Tensor logits = ops::fused_linear(x.to(type), {{wide(weight_)}, biases});
  Routing routing = choose_experts(logits, wide(correction_bias_), options_);
  if (for_losses) {
    routing.probabilities = probabilities_of(logits, options_.scores);
    routing.log_sums = at::logsumexp(logits, -1);
  }
  return routing;
}

}  // namespace colossal::nn
