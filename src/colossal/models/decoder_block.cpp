#include "colossal/models/decoder_block.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "colossal/ops/activation.h"

namespace colossal::models {
namespace {

// Makes the layers of one block.
class BlockMaker {
 public:
  BlockMaker(nn::Builder& build, const DecoderConfig& config, int64_t layer)
      : build_(build), config_(config), layer_(layer) {}

  std::unique_ptr<nn::Norm> norm(const std::string& name) const {
    return make_norm(build_, name, config_);
  }

  std::unique_ptr<nn::Linear> qkv() const {
    const int64_t queries = config_.query_features(), keys = config_.key_features();
    if (config_.stored_in_out) return linear("qkv", config_.hidden, queries + 2 * keys, true);
    return build_.fused_linear({.in_features = config_.hidden,
                                .parts = {{"query", queries}, {"key", keys}, {"value", keys}},
                                .bias = config_.qkv_bias,
                                .initializer = normal()});
  }

  std::unique_ptr<nn::Attention> attention() const {
    const LayerAttention& kind = config_.attention_of(layer_);
    const double size = static_cast<double>(config_.head_size);
    return build_.attention("attention",
                            {.layer = layer_,
                             .heads = config_.heads,
                             .kv_heads = config_.kv_heads,
                             .head_size = config_.head_size,
                             .scale = kind.scale != 0 ? kind.scale : 1 / std::sqrt(size),
                             .dropout = config_.attention_dropout,
                             .rotary = kind.rotary});
  }

  std::unique_ptr<nn::Linear> attention_output() const {
    return to_residual("attention_output", config_.query_features(), config_.attention_output_bias);
  }

  std::unique_ptr<nn::Linear> mlp_up() const {
    if (!config_.gated) return linear("mlp_up", config_.hidden, config_.inner, config_.mlp_bias);
    return build_.fused_linear({.in_features = config_.hidden,
                                .parts = {{"mlp_gate", config_.inner}, {"mlp_up", config_.inner}},
                                .bias = config_.mlp_bias,
                                .initializer = normal()});
  }

  std::unique_ptr<nn::GatedActivation> gated_activation() const {
    return config_.gated ? build_.gated_activation("mlp_activation", ops::Activation::silu)
                         : nullptr;
  }

  std::unique_ptr<nn::Linear> mlp_down() const {
    return to_residual("mlp_down", config_.inner, config_.mlp_bias);
  }

  std::unique_ptr<nn::Dropout> dropout(const std::string& name) const {
    return build_.dropout(name, config_.residual_dropout);
  }

 private:
  nn::Initializer normal() const { return nn::Initializer::normal(config_.initializer_range); }

  std::unique_ptr<nn::Linear> linear(const std::string& name, int64_t in, int64_t out,
                                     bool bias) const {
    return build_.linear(name, options(in, out, bias, normal()));
  }

  std::unique_ptr<nn::Linear> to_residual(const std::string& name, int64_t in, bool bias) const {
    const double range = config_.residual_initializer_range;
    const nn::Initializer initializer = range > 0 ? nn::Initializer::normal(range) : normal();
    return build_.linear(name, options(in, config_.hidden, bias, initializer));
  }

  nn::LinearOptions options(int64_t in, int64_t out, bool bias,
                            const nn::Initializer& initializer) const {
    return {.in_features = in,
            .out_features = out,
            .bias = bias,
            .order = config_.stored_in_out ? nn::WeightOrder::in_out : nn::WeightOrder::out_in,
            .initializer = initializer};
  }

  nn::Builder& build_;
  const DecoderConfig& config_;
  int64_t layer_;
};

class DecoderBlock : public nn::Block {
 public:
  explicit DecoderBlock(const BlockMaker& make)
      : attention_norm_(make.norm("attention_norm")),
        qkv_(make.qkv()),
        attention_(make.attention()),
        attention_output_(make.attention_output()),
        attention_dropout_(make.dropout("attention_dropout")),
        mlp_norm_(make.norm("mlp_norm")),
        mlp_up_(make.mlp_up()),
        gated_activation_(make.gated_activation()),
        mlp_down_(make.mlp_down()),
        mlp_dropout_(make.dropout("mlp_dropout")) {}

  at::Tensor forward(const at::Tensor& input, const nn::StepContext& context) override {
    at::Tensor x = input;
    at::Tensor y = attend(attention_norm_->forward(x, context), context);
    std::tie(x, y) = mlp_norm_->add_forward(x, y, context);
    return x + run_mlp(y, context);
  }

 private:
  at::Tensor attend(const at::Tensor& x, const nn::StepContext& context) const {
    const at::Tensor seen = attention_->forward(qkv_->forward(x, context), context);
    return attention_dropout_->forward(attention_output_->forward(seen, context), context);
  }

  at::Tensor run_mlp(const at::Tensor& x, const nn::StepContext& context) const {
    const at::Tensor up = mlp_up_->forward(x, context);
    const at::Tensor activated = gated_activation_ ? gated_activation_->forward(up, context)
                                                   : ops::activate(up, ops::Activation::gelu_tanh);
    return mlp_dropout_->forward(mlp_down_->forward(activated, context), context);
  }

  std::unique_ptr<nn::Norm> attention_norm_;
  std::unique_ptr<nn::Linear> qkv_;
  std::unique_ptr<nn::Attention> attention_;
  std::unique_ptr<nn::Linear> attention_output_;
  std::unique_ptr<nn::Dropout> attention_dropout_;
  std::unique_ptr<nn::Norm> mlp_norm_;
  std::unique_ptr<nn::Linear> mlp_up_;
  std::unique_ptr<nn::GatedActivation> gated_activation_;  // null: a plain activation
  std::unique_ptr<nn::Linear> mlp_down_;
  std::unique_ptr<nn::Dropout> mlp_dropout_;
};

}  // namespace

std::unique_ptr<nn::Norm> make_norm(nn::Builder& build, const std::string& name,
                                    const DecoderConfig& config) {
  const nn::NormOptions options{.features = config.hidden, .epsilon = config.norm_epsilon};
  return config.norm == DecoderConfig::Norm::rms ? build.rms_norm(name, options)
                                                 : build.layer_norm(name, options);
}

std::unique_ptr<nn::Block> make_decoder_block(nn::Builder& build, const DecoderConfig& config,
                                              int64_t layer) {
  const auto scope = build.scope(fmt::format("blocks.{}", layer));
  return std::make_unique<DecoderBlock>(BlockMaker(build, config, layer));
}

}  // namespace colossal::models
