#include "colossal/nn/head_options.h"

namespace colossal::nn {

HeadOptions::HeadOptions(std::string stream, const AttentionOptions& options,
                         const LocalHeads& here, const AttentionParameters& parameters)
    : stream_(std::move(stream)), options_(options), here_(here), parameters_(parameters) {
  if (options.alibi == 0) return;
  const std::vector<double> of_all = ops::alibi_slopes(options.heads);
  for (int64_t head = here.queries.begin; head < here.queries.end; ++head) {
    alibi_slopes_.push_back(options.alibi * of_all[head]);
  }
}

at::Tensor HeadOptions::sinks(LayerScope& scope) const {
  const ParameterHandle& sinks = parameters_.sinks;
  if (!sinks) return {};
  const auto& held = sinks->placement.held;
  const int64_t first = held.empty() || held[0].empty() ? 0 : held[0].front().begin;
  return sinks.use(scope).narrow(0, here_.queries.begin - first, here_.queries.size());
}

at::Tensor HeadOptions::heads_of(const ParameterHandle& parameter, int64_t size,
                                 LayerScope& scope) const {
  const auto& held = parameter->placement.held;
  const int64_t first = held.empty() ? 0 : held[1].front().begin / size;
  return parameter.use(scope)
      .unflatten(1, {-1, size})
      .narrow(1, here_.keys.begin - first, here_.keys.size())
      .transpose(0, 1);
}

ops::VirtualTokens HeadOptions::virtual_tokens(LayerScope& scope) const {
  if (!parameters_.virtual_keys) return {};
  return {heads_of(parameters_.virtual_keys, options_.head_size, scope),
          heads_of(parameters_.virtual_values, options_.size_of_value(), scope)};
}

ops::AttentionOptions HeadOptions::of_step(LayerScope& scope, const StepContext& context) const {
  ops::AttentionOptions options{.causal = options_.causal,
                                .window = options_.window,
                                .prefix_lengths = context.tokens().prefix_lengths,
                                .scale = options_.scale,
                                .soft_cap = options_.soft_cap,
                                .alibi_slopes = alibi_slopes_,
                                .sinks = sinks(scope)};
  if (context.adapted) options.virtual_tokens = virtual_tokens(scope);
  if (context.training && options_.dropout > 0) {
    options.dropout = options_.dropout;
    options.random_key = random_key(context.seed, static_cast<uint64_t>(context.step), stream_);
    options.sample_ids = context.sample_ids;
    options.head_begin = here_.queries.begin;
  }
  return options;
}

}  // namespace colossal::nn
