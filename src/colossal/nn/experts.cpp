#include "colossal/nn/experts.h"

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/expert_order.h"
#include "colossal/ops/grouped_product.h"

namespace colossal::nn {

at::Tensor ExpertStacks::compute(const at::Tensor& rows, const std::vector<int64_t>& counts) const {
  at::Tensor gate_up;
  {
    LayerScope scope = scope_of(gate_);
    gate_up = ops::grouped_product(rows, counts, {gate_.use(scope), up_.use(scope)});
  }
  const at::Tensor activated = ops::activate_gate(gate_up, activation_);
  LayerScope scope = scope_of(down_);
  return ops::grouped_product(activated, counts, {down_.use(scope)});
}

at::Tensor DenseExperts::forward(const at::Tensor& x, const StepContext& context) {
  const at::Tensor tokens = tokens_of(x, context);
  const Routing routing = parts_.router.route(tokens);
  const ops::ExpertOrder order =
      ops::order_by_expert(routing.experts, parts_.router.options().experts);
  const at::Tensor rows = ops::rows_by_expert(tokens, order);
  const at::Tensor results = through_experts(rows, order.counts);
  return activation_of(ops::sum_over_experts(results, routing.weights, order), x, context);
}

}  // namespace colossal::nn
