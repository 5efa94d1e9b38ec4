#include "colossal/models/attention_pooling.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "colossal/models/transformer_block.h"

namespace colossal::models {

AttentionPooling::AttentionPooling(nn::Builder& build, const TransformerConfig& config)
    : activation_(config.activation) {
  const auto scope = build.scope("pooling");
  const nn::Initializer normal = nn::Initializer::normal(config.initializer_range);
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    return build.linear(name, {.in_features = in, .out_features = out, .initializer = normal});
  };
  probe_.emplace(build, "probe", config.hidden, nn::Initializer::normal(1));
  query_ = linear("cross_query", config.hidden, config.query_features());
  key_value_ = build.fused_linear(
      {.in_features = config.hidden,
       .parts = {{"cross_key", config.key_features()}, {"cross_value", config.key_features()}},
       .initializer = normal});
  attention_ = build.cross_attention("attention", {.heads = config.heads,
                                                   .kv_heads = config.kv_heads,
                                                   .head_size = config.head_size,
                                                   .causal = false});
  attention_output_ = linear("cross_attention_output", config.attended_features(), config.hidden);
  mlp_norm_ = make_norm(build, "mlp_norm", config);
  mlp_up_ = linear("mlp_up", config.hidden, config.inner);
  mlp_down_ = linear("mlp_down", config.inner, config.hidden);
  pooled_.emplace(build, "pooled", nn::PooledProjectionOptions{.in_features = config.hidden});
}

at::Tensor AttentionPooling::forward(const at::Tensor& x, const nn::StepContext& context) const {
  nn::StepContext of_probe = context;
  of_probe.grids = {
      context.tokens(),
      {.batch = context.tokens().batch, .sequence = 1, .whole_sequence = 1, .length = 1}};
  of_probe.stack = 1;
  of_probe.tokens().positions = at::zeros({1}, context.tokens().positions.options());
  const at::Tensor attended =
      attention_->forward(query_->forward(probe_->forward(of_probe), of_probe),
                          key_value_->forward(x, context), of_probe);
  const at::Tensor y = attention_output_->forward(attended, of_probe);
  const at::Tensor inner =
      ops::activate(mlp_up_->forward(mlp_norm_->forward(y, of_probe), of_probe), activation_);
  // All ranks of sp compute the same; that of the rank with the first token counts.
  const at::Tensor share =
      context.tokens().positions.eq(0).any().view({1, 1}).expand({context.tokens().batch, 1});
  return pooled_->forward(y + mlp_down_->forward(inner, of_probe), share, of_probe);
}

int64_t attention_pooling_parameters(const TransformerConfig& config) {
  const int64_t hidden = config.hidden;
  return hidden + 4 * hidden * (hidden + 1) + 2 * hidden + config.inner * (hidden + 1) +
         hidden * (config.inner + 1);
}

}  // namespace colossal::models
