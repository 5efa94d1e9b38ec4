#include "colossal/nn/experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include <numeric>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/product_inputs.h"
#include "colossal/nn/router_records.h"
#include "colossal/ops/expert_order.h"
#include "colossal/ops/grouped_product.h"
#include "colossal/ops/quantized_product.h"

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

// What one of `parts` ranks adds of a bias that all of them have: equal shares, whose gradients are
// that of the whole bias on each, so that the copies stay equal.
at::Tensor share_of_bias(const at::Tensor& bias, int parts) {
  if (parts == 1) return bias;
  const double share = 1.0 / parts;
  return bias.detach() * share + (bias - bias.detach());
}

// The products of each expert's rows with its matrices of these stacks, [rows, sum of out].
at::Tensor products(const at::Tensor& rows, const std::vector<int64_t>& counts,
                    const std::vector<ParameterHandle>& stacks, LayerScope& scope) {
  tell_expert_inputs(stacks, counts, rows);
  if (!stacks.front()->quantized_stack.empty()) {
    std::vector<ops::QuantizedStack> quantized;
    for (const ParameterHandle& stack : stacks) quantized.push_back(stack->quantized_stack);
    return ops::quantized_grouped_product(rows, counts, quantized);
  }
  std::vector<at::Tensor> weights;
  for (const ParameterHandle& stack : stacks) {
    const at::Tensor weight = stack.use(scope);
    weights.push_back(stack->product == WeightOrder::in_out ? weight.transpose(1, 2) : weight);
  }
  return ops::grouped_product(rows, counts, weights);
}

}  // namespace

at::Tensor PairedStacks::compute(const at::Tensor& rows, const std::vector<int64_t>& counts) const {
  at::Tensor pairs;
  {
    LayerScope scope = scope_of(parameters_.gate_up);
    pairs = products(rows, counts, {parameters_.gate_up}, scope) +
            bias_of_rows(parameters_.gate_up_bias.use(scope), counts);
  }
  const at::Tensor gated = ops::clamped_gate(pairs, gate_);
  LayerScope scope = scope_of(parameters_.down);
  return products(gated, counts, {parameters_.down}, scope) +
         bias_of_rows(share_of_bias(parameters_.down_bias.use(scope), parts_), counts);
}

at::Tensor SeparateStacks::compute(const at::Tensor& rows,
                                   const std::vector<int64_t>& counts) const {
  at::Tensor gate_up;
  {
    LayerScope scope = scope_of(gate_);
    gate_up = products(rows, counts, {gate_, up_}, scope);
  }
  const at::Tensor activated = ops::activate_gate(gate_up, activation_);
  LayerScope scope = scope_of(down_);
  return products(activated, counts, {down_}, scope);
}

at::Tensor DenseExperts::forward(const at::Tensor& x, const StepContext& context) {
  const at::Tensor tokens = tokens_of(x, context);
  const bool for_losses = context.router_records && context.router_records->for_losses;
  const RouterOptions& options = parts_.router.options();
  const Routing routing = parts_.router.route(tokens, for_losses);
  const bool has_capacity = options.capacity_factor > 0 && context.training;
  const at::Tensor experts = has_capacity ? within_capacity(routing, options, context,
                                                            first_token(context), parts_.share_rows)
                                          : routing.experts;
  const ops::ExpertOrder order = ops::order_by_expert(experts, options.experts);
  if (context.router_records) record(routing, order.counts, context);
  const at::Tensor rows = ops::rows_by_expert(tokens, order);
  const at::Tensor results = through_experts(rows, order.counts);
  return activation_of(ops::sum_over_experts(results, routing.weights, order), x, context);
}

// Sums are products with ones and zeros: in an order that is the same in every run.
void DenseExperts::record(const Routing& routing, const std::vector<int64_t>& counts,
                          const StepContext& context) const {
  RouterRecord& made = context.router_records->layers.emplace_back();
  made.layer = parts_.layer;
  made.counts = counts;
  made.dropped =
      routing.experts.numel() - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (!context.router_records->for_losses) return;
  const int64_t tokens = routing.experts.size(0), first = first_token(context);
  const at::TensorOptions whole = routing.experts.options();
  const at::Tensor sequences =
      at::arange(first, first + tokens, whole).div(context.sequence, "floor");
  const at::Tensor is_in = (at::arange(context.batch, whole).unsqueeze(1) == sequences)
                               .to(routing.log_sums.scalar_type());
  made.probabilities = is_in.mm(routing.probabilities);
  const at::Tensor is_chosen =
      at::zeros_like(routing.probabilities.detach()).scatter_(1, routing.experts, 1);
  made.chosen = is_in.mm(is_chosen);
  made.squared_log_sums = routing.log_sums.square().sum();
}

}  // namespace colossal::nn
