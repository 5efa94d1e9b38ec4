#include "colossal/nn/experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "colossal/nn/layer_scope.h"
#include "colossal/ops/expert_order.h"
#include "colossal/ops/grouped_product.h"

namespace colossal::nn {

namespace {

// Of a bias [experts, features] the row of each row's expert.
at::Tensor bias_of_rows(const at::Tensor& bias, const std::vector<int64_t>& counts) {
  std::vector<at::Tensor> rows;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    rows.push_back(bias.select(0, static_cast<int64_t>(expert)).expand({counts[expert], -1}));
  }
  return at::cat(rows);
}

}  // namespace

at::Tensor PairedStacks::compute(const at::Tensor& rows, const std::vector<int64_t>& counts) const {
  at::Tensor pairs;
  {
    LayerScope scope = scope_of(parameters_.gate_up);
    pairs = ops::grouped_product(rows, counts, {parameters_.gate_up.use(scope).transpose(1, 2)}) +
            bias_of_rows(parameters_.gate_up_bias.use(scope), counts);
  }
  const at::Tensor gated = ops::clamped_gate(pairs, gate_);
  LayerScope scope = scope_of(parameters_.down);
  return ops::grouped_product(gated, counts, {parameters_.down.use(scope).transpose(1, 2)}) +
         bias_of_rows(parameters_.down_bias.use(scope), counts);
}

at::Tensor SeparateStacks::compute(const at::Tensor& rows,
                                   const std::vector<int64_t>& counts) const {
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
