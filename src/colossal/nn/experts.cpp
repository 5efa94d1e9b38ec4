#include "colossal/nn/experts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <numeric>
#include <utility>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/product_inputs.h"
#include "colossal/nn/router_records.h"
#include "colossal/ops/expert_order.h"
#include "colossal/ops/product/grouped_product.h"
#include "colossal/ops/product/packed_product.h"
#include "colossal/ops/product/quantized_product.h"

namespace colossal::nn {

namespace {

// Returns the bias of each row's expert, [rows, features]. bias: [experts, features].
at::Tensor bias_of_rows(const at::Tensor& bias, const std::vector<int64_t>& counts) {
  std::vector<at::Tensor> rows;
  for (size_t expert = 0; expert < counts.size(); ++expert) {
    rows.push_back(bias.select(0, static_cast<int64_t>(expert)).expand({counts[expert], -1}));
  }
  return at::cat(rows);
}

// Returns bias / parts, which each of `parts` ranks adds to its part of a sum. Its gradient is that
// of the whole bias on each of these ranks, so that their copies of the bias stay equal.
at::Tensor share_of_bias(const at::Tensor& bias, int parts) {
  if (parts == 1) return bias;
  const double share = 1.0 / parts;
  return bias.detach() * share + (bias - bias.detach());
}

// Returns whether the stack is neither packed nor quantized.
bool is_plain(const ParameterHandle& stack) {
  return !stack->packed && stack->quantized_stack.empty();
}

// Returns the weight with which to compute. All experts must be on the device for on_use, which may
// read experts without rows.
at::Tensor used_weight(const ParameterHandle& stack, const std::vector<int64_t>& counts,
                       LayerScope& scope, const OnUse& on_use) {
  return on_use ? on_use(stack.use(scope)) : stack.use_of(scope, counts);
}

// Returns the products of each row with its expert's matrices of these stacks, [rows, sum of out].
at::Tensor products(const at::Tensor& rows, const std::vector<int64_t>& counts,
                    const std::vector<ParameterHandle>& stacks, LayerScope& scope,
                    const OnUse& on_use) {
  report_expert_inputs(stacks, counts, rows);
  if (!stacks.front()->quantized_stack.empty()) {
    std::vector<ops::QuantizedStack> quantized;
    for (const ParameterHandle& stack : stacks) quantized.push_back(stack->quantized_stack);
    return ops::quantized_grouped_product(rows, counts, quantized);
  }
  if (stacks.front()->packed) {
    ops::PackedWeights packed{.bytes = used(stacks, scope), .layouts = {}, .biases = {}};
    for (const ParameterHandle& stack : stacks) packed.layouts.push_back(stack->packed);
    return ops::packed_grouped_product(rows, counts, packed);
  }
  std::vector<at::Tensor> weights;
  for (const ParameterHandle& stack : stacks) {
    const at::Tensor weight = used_weight(stack, counts, scope, on_use);
    weights.push_back(stack->product == WeightOrder::in_out ? weight.transpose(1, 2) : weight);
  }
  return ops::grouped_product(rows, counts, weights);
}

}  // namespace

at::Tensor InterleavedStacks::compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                      const StepContext& context, const OnUse& on_use) const {
  at::Tensor pairs;
  {
    LayerScope scope = scope_of(parameters_.gate_up);
    pairs = adapters_.first.add(products(rows, counts, {parameters_.gate_up}, scope, on_use), rows,
                                counts, context, scope);
    pairs =
        pairs + bias_of_rows(used_weight(parameters_.gate_up_bias, counts, scope, on_use), counts);
  }
  const at::Tensor gated = ops::clamped_gate(pairs, gate_);
  LayerScope scope = scope_of(parameters_.down);
  const at::Tensor results = adapters_.second.add(
      products(gated, counts, {parameters_.down}, scope, on_use), gated, counts, context, scope);
  const at::Tensor bias = used_weight(parameters_.down_bias, counts, scope, on_use);
  return results + bias_of_rows(share_of_bias(bias, parts_), counts);
}

at::Tensor InterleavedStacks::compute_with(const at::Tensor& rows,
                                           const std::vector<int64_t>& counts,
                                           const std::vector<at::Tensor>& weights) const {
  const at::Tensor pairs = ops::grouped_product(rows, counts, {weights[0].transpose(1, 2)}) +
                           bias_of_rows(weights[1], counts);
  const at::Tensor gated = ops::clamped_gate(pairs, gate_);
  return ops::grouped_product(gated, counts, {weights[2].transpose(1, 2)}) +
         bias_of_rows(share_of_bias(weights[3], parts_), counts);
}

bool InterleavedStacks::can_be_copied() const {
  return is_plain(parameters_.gate_up) && adapters_.none();
}

at::Tensor SeparateStacks::compute(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                   const StepContext& context, const OnUse& on_use) const {
  at::Tensor gate_up;
  {
    LayerScope scope = scope_of(gate_);
    gate_up = adapters_.first.add(products(rows, counts, {gate_, up_}, scope, on_use), rows, counts,
                                  context, scope);
  }
  const at::Tensor activated = ops::activate_gate(gate_up, activation_);
  LayerScope scope = scope_of(down_);
  return adapters_.second.add(products(activated, counts, {down_}, scope, on_use), activated,
                              counts, context, scope);
}

at::Tensor SeparateStacks::compute_with(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                        const std::vector<at::Tensor>& weights) const {
  const at::Tensor gate_up = ops::grouped_product(rows, counts, {weights[0], weights[1]});
  return ops::grouped_product(ops::activate_gate(gate_up, activation_), counts, {weights[2]});
}

bool SeparateStacks::can_be_copied() const {
  return is_plain(gate_) && adapters_.none();
}

LocalExperts::LocalExperts(ExpertsParts parts) : parts_(std::move(parts)) {
  const std::vector<int64_t>& order = parts_.places.order;
  expected_ = parts_.places.expected;
  if (order.empty()) return;
  const auto experts = std::ssize(order);
  const at::Tensor table = at::empty({experts + 1}, at::kLong);
  auto* const places = table.mutable_data_ptr<int64_t>();
  for (int64_t place = 0; place < experts; ++place) places[order[place]] = place;
  places[experts] = experts;
  place_of_expert_ = ops::DeviceTable(table);
  for (size_t place = 0; place < expected_.size(); ++place) {
    expected_[place] = parts_.places.expected[order[place]];
  }
}

at::Tensor LocalExperts::places_of(const at::Tensor& experts) const {
  if (!place_of_expert_.defined()) return experts;
  if (experts.is_meta()) return experts;
  return place_of_expert_.on(experts.device()).index_select(0, experts.flatten()).view_as(experts);
}

std::vector<int64_t> LocalExperts::by_expert(const std::vector<int64_t>& of_places) const {
  const std::vector<int64_t>& order = parts_.places.order;
  if (order.empty()) return of_places;
  std::vector<int64_t> counts(of_places.size());
  for (size_t place = 0; place < order.size(); ++place) counts[order[place]] = of_places[place];
  return counts;
}

at::Tensor LocalExperts::forward(const at::Tensor& x, const StepContext& context,
                                 const std::function<void()>& meanwhile) {
  const at::Tensor tokens = tokens_of(x, context);
  const bool for_losses =
      context.services.router_records && context.services.router_records->for_losses;
  const RouterOptions& options = parts_.router.options();
  const Routing routing = parts_.router.route(tokens, for_losses);
  const bool has_capacity = options.capacity_factor > 0 && context.training;
  const at::Tensor experts = has_capacity
                                 ? within_capacity(routing, options, context, first_token(context),
                                                   parts_.gather_token_rows)
                                 : routing.experts;
  std::function<void()> rest = meanwhile;
  const ops::ExpertOrder order =
      ops::order_by_expert(places_of(experts), options.experts, expected_, [&] {
        if (rest) std::exchange(rest, nullptr)();
      });
  if (context.services.router_records) record(routing, by_expert(order.counts), context);
  const at::Tensor rows = ops::rows_by_expert(tokens, order);
  const at::Tensor results = run_experts(rows, order.counts, context, rest);
  return activation_of(ops::sum_over_experts(results, routing.weights, order), x, context);
}

// Sums over tokens by products with matrices of zeros and ones, whose order of summation is the
// same in every run.
void LocalExperts::record(const Routing& routing, const std::vector<int64_t>& counts,
                          const StepContext& context) const {
  RouterRecord& made = context.services.router_records->layers.emplace_back();
  made.layer = parts_.layer;
  made.counts = counts;
  made.dropped =
      routing.experts.numel() - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (!context.services.router_records->for_losses) return;
  const int64_t tokens = routing.experts.size(0), first = first_token(context);
  const at::TensorOptions whole = routing.experts.options();
  const at::Tensor sequences =
      at::arange(first, first + tokens, whole).div(context.tokens().sequence, "floor");
  const at::Tensor is_in = (at::arange(context.tokens().batch, whole).unsqueeze(1) == sequences)
                               .to(routing.log_sums.scalar_type());
  made.probabilities = is_in.mm(routing.probabilities);
  const at::Tensor is_chosen =
      at::zeros_like(routing.probabilities.detach()).scatter_(1, routing.experts, 1);
  made.chosen = is_in.mm(is_chosen);
  made.squared_log_sums = routing.log_sums.square().sum();
}

}  // namespace colossal::nn
