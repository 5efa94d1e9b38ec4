#include "colossal/nn/head_options.h"

namespace colossal::nn {

HeadOptions::HeadOptions(std::string stream, const AttentionOptions& options,
                         const LocalHeads& here, const AttentionParameters& parameters)
    : stream_(std::move(stream)), options_(options), here_(here), sinks_(parameters.sinks) {
  if (options.alibi == 0) return;
  const std::vector<double> of_all = ops::alibi_slopes(options.heads);
  for (int64_t head = here.queries.begin; head < here.queries.end; ++head) {
    alibi_slopes_.push_back(options.alibi * of_all[head]);
  }
}

at::Tensor HeadOptions::sinks(LayerScope& scope) const {
  if (!sinks_) return {};
  const auto& held = sinks_->placement.held;
  const int64_t first = held.empty() || held[0].empty() ? 0 : held[0].front().begin;
  return sinks_.use(scope).narrow(0, here_.queries.begin - first, here_.queries.size());
}

ops::AttentionOptions HeadOptions::of_step(LayerScope& scope, const StepContext& context) const {
  ops::AttentionOptions options{.causal = options_.causal,
                                .window = options_.window,
                                .prefix_lengths = context.prefix_lengths,
                                .scale = options_.scale,
                                .soft_cap = options_.soft_cap,
                                .alibi_slopes = alibi_slopes_,
                                .sinks = sinks(scope)};
  if (context.training && options_.dropout > 0) {
    options.dropout = options_.dropout;
    options.random_key = random_key(context.seed, static_cast<uint64_t>(context.step), stream_);
    options.sample_ids = context.sample_ids;
    options.head_begin = here_.queries.begin;
  }
  return options;
}

}  // namespace colossal::nn
