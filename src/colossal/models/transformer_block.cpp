#include "colossal/models/transformer_block.h"

#include <ATen/ops/sigmoid.h>
#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "colossal/base/error.h"
#include "colossal/nn/feature_scale.h"
#include "colossal/nn/memory_store.h"

namespace colossal::models {
namespace {

// Makes the layers of one block.
class BlockMaker {
 public:
  BlockMaker(nn::Builder& build, const TransformerConfig& config, int64_t layer, int64_t before)
      : build_(build), config_(config), layer_(layer), index_(before + layer) {}

  const TransformerConfig& config() const { return config_; }
  int64_t index() const { return index_; }  // of the block in the model

  std::unique_ptr<nn::Norm> norm_if(bool has, const std::string& name) const {
    return has ? make_norm(build_, name, config_) : nullptr;
  }

  std::optional<nn::FeatureScale> feature_scale(const std::string& name) const {
    const std::optional<double> value = config_.feature_scale;
    if (!value) return std::nullopt;
    return nn::FeatureScale(build_, name, config_.hidden, *value);
  }

  std::unique_ptr<nn::Linear> qkv() const {
    const int64_t queries = config_.query_features(), keys = config_.key_features();
    if (config_.stored_in_out) {
      return linear("qkv", config_.hidden, queries + 2 * keys, config_.qkv_bias);
    }
    return build_.fused_linear(
        {.in_features = config_.hidden,
         .parts = {{"query", queries, of_queries()}, {"key", keys}, {"value", keys}},
         .bias = config_.qkv_bias,
         .initializer = normal()});
  }

  std::unique_ptr<nn::Attention> attention() const {
    return build_.attention("attention", attention_options());
  }

  std::unique_ptr<nn::LatentAttention> latent_attention() const {
    const int64_t rotary = config_.attention_of(layer_).rotary.channels;
    return build_.latent_attention("attention", {.hidden = config_.hidden,
                                                 .heads = config_.heads,
                                                 .query_rank = config_.query_rank,
                                                 .key_value_rank = config_.key_value_rank,
                                                 .rotary = rotary,
                                                 .plain = config_.head_size - rotary,
                                                 .value = config_.size_of_value(),
                                                 .bias = config_.qkv_bias,
                                                 .initializer = normal(),
                                                 .attention = attention_options()});
  }

  std::unique_ptr<nn::Linear> attention_output() const {
    return to_residual("attention_output", config_.attended_features(),
                       config_.attention_output_bias, config_.initial_ranges.attention_output);
  }

  bool has_cross_attention() const { return config_.has_cross_attention(layer_); }
  std::unique_ptr<nn::Linear> cross_query() const {
    return build_.linear("cross_query", options(config_.hidden, config_.query_features(),
                                                config_.qkv_bias, of_queries()));
  }
  std::unique_ptr<nn::Linear> cross_key_value() const {
    const int64_t keys = config_.key_features();
    return build_.fused_linear({.in_features = config_.hidden,
                                .parts = {{"cross_key", keys}, {"cross_value", keys}},
                                .bias = config_.qkv_bias,
                                .initializer = normal()});
  }
  std::unique_ptr<nn::CrossAttention> cross_attention() const {
    nn::AttentionOptions options = attention_options();
    options.causal = false;
    options.window = 0;
    return build_.cross_attention("cross_attention", options);
  }
  std::unique_ptr<nn::Linear> cross_attention_output() const {
    return to_residual("cross_attention_output", config_.attended_features(),
                       config_.attention_output_bias, config_.initial_ranges.attention_output);
  }
  std::unique_ptr<nn::Dropout> cross_attention_dropout() const {
    return build_.dropout("cross_attention_dropout", config_.attention_output_dropout);
  }

  // Returns the up layer, with the gate if the MLP is gated, of the MLP whose layers' names begin
  // with `prefix`.
  std::unique_ptr<nn::Linear> mlp_up(const std::string& prefix, int64_t inner) const {
    if (!config_.gated) return linear(prefix + "_up", config_.hidden, inner, config_.mlp_up_bias);
    return build_.fused_linear({.in_features = config_.hidden,
                                .parts = {{prefix + "_gate", inner}, {prefix + "_up", inner}},
                                .bias = config_.mlp_up_bias,
                                .initializer = normal()});
  }

  std::unique_ptr<nn::GatedActivation> gated_activation(const std::string& prefix) const {
    return config_.gated ? build_.gated_activation(prefix + "_activation", config_.activation)
                         : nullptr;
  }

  bool has_experts() const { return config_.has_experts(layer_); }
  bool has_attention_norm() const {
    return config_.has_norm_before() && (layer_ > 0 || config_.first_attention_norm);
  }

  std::unique_ptr<nn::Experts> experts() const {
    const double range = config_.residual_initializer_range;
    return build_.experts(
        "experts", {.layer = index_,
                    .hidden = config_.hidden,
                    .inner = config_.expert_inner,
                    .router = config_.router,
                    .activation = config_.activation,
                    .clamped_gate = config_.clamped_gate,
                    .initializer = normal(),
                    .down_initializer = range > 0 ? nn::Initializer::normal(range) : normal()});
  }

  std::unique_ptr<nn::Linear> mlp_down(const std::string& prefix, int64_t inner) const {
    return to_residual(prefix + "_down", inner, config_.mlp_down_bias,
                       config_.initial_ranges.mlp_down, config_.mlp_inner_dropout);
  }

  // Returns the layer that computes one weight per token for the output of the shared MLP.
  std::unique_ptr<nn::Linear> shared_gate() const {
    if (!config_.shared_gate) return nullptr;
    return linear("shared_gate", config_.hidden, 1, false);
  }

  // With one_branch_dropout the attention and the MLP draw the same random numbers, so the result
  // equals dropout of their sum.
  std::unique_ptr<nn::Dropout> attention_output_dropout() const {
    return build_.dropout(config_.one_branch_dropout ? "mlp_dropout" : "attention_dropout",
                          config_.attention_output_dropout);
  }
  std::unique_ptr<nn::Dropout> mlp_dropout() const {
    return build_.dropout("mlp_dropout", config_.mlp_dropout);
  }

 private:
  nn::AttentionOptions attention_options() const {
    const LayerAttention& kind = config_.attention_of(layer_);
    const double size = static_cast<double>(config_.head_size);
    return {.layer = index_,
            .heads = config_.heads,
            .kv_heads = config_.kv_heads,
            .head_size = config_.head_size,
            .value_size = config_.value_size,
            .scale = kind.scale != 0 ? kind.scale : 1 / std::sqrt(size),
            .dropout = config_.attention_dropout,
            .query_key_norm = config_.query_key_norm,
            .rotary = kind.rotary,
            .causal = config_.causal && !config_.is_of_encoder(layer_),
            .window = kind.window,
            .soft_cap = config_.attention_soft_cap,
            .alibi = config_.alibi,
            .sinks = config_.attention_sinks ? std::optional(normal()) : std::nullopt};
  }

  nn::Initializer normal() const { return nn::Initializer::normal(config_.initializer_range); }
  nn::Initializer of_queries() const {
    const double range = config_.initial_ranges.query;
    return range > 0 ? nn::Initializer::normal(range) : normal();
  }

  std::unique_ptr<nn::Linear> linear(const std::string& name, int64_t in, int64_t out,
                                     bool bias) const {
    return build_.linear(name, options(in, out, bias, normal()));
  }

  // initial_range: standard deviation of new weights; 0: residual_initializer_range.
  std::unique_ptr<nn::Linear> to_residual(const std::string& name, int64_t in, bool bias,
                                          double initial_range, double input_dropout = 0) const {
    double range = initial_range > 0 ? initial_range : config_.residual_initializer_range;
    if (range == 0) range = config_.initializer_range;
    nn::LinearOptions product = options(in, config_.hidden, bias, nn::Initializer::normal(range));
    product.input_dropout = input_dropout;
    return build_.linear(name, product);
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
  const TransformerConfig& config_;
  int64_t layer_, index_;
};

using Conditions = std::vector<at::Tensor>;

// Attention with its linear layers and dropout, without norms.
class AttentionBranch {
 public:
  explicit AttentionBranch(const BlockMaker& make)
      : is_biased_(make.config().relative_buckets > 0),
        latent_(make.config().has_latents() ? make.latent_attention() : nullptr),
        qkv_(latent_ ? nullptr : make.qkv()),
        attention_(latent_ ? nullptr : make.attention()),
        output_(make.attention_output()),
        dropout_(make.attention_output_dropout()) {}

  // conditions: of the block's state.
  at::Tensor forward(const at::Tensor& x, const Conditions& conditions,
                     const nn::StepContext& context) const {
    const at::Tensor seen =
        latent_ ? latent_->forward(x, context)
                : attention_->forward(qkv_->forward(x, context),
                                      is_biased_ ? conditions.front() : at::Tensor(), context);
    return dropout_->forward(output_->forward(seen, context), context);
  }

 private:
  bool is_biased_;                               // whether the conditions begin with a bias
  std::unique_ptr<nn::LatentAttention> latent_;  // null: qkv_ and attention_ are used
  std::unique_ptr<nn::Linear> qkv_;
  std::unique_ptr<nn::Attention> attention_;
  std::unique_ptr<nn::Linear> output_;
  std::unique_ptr<nn::Dropout> dropout_;
};

// Attention of the decoder to the encoder's output, with its linear layers and dropout, without
// norms.
class CrossAttentionBranch {
 public:
  explicit CrossAttentionBranch(const BlockMaker& make)
      : layer_(make.index()),
        query_(make.cross_query()),
        key_value_(make.cross_key_value()),
        attention_(make.cross_attention()),
        output_(make.cross_attention_output()),
        dropout_(make.cross_attention_dropout()) {}

  // conditions: of the block's state.
  at::Tensor forward(const at::Tensor& x, const Conditions& conditions,
                     const nn::StepContext& context) const {
    const at::Tensor query = query_->forward(x, context);
    const at::Tensor seen = context.services.memories ? attend_stored(query, context)
                                                      : attend(query, conditions.back(), context);
    return dropout_->forward(output_->forward(seen, context), context);
  }

 private:
  at::Tensor attend(const at::Tensor& query, const at::Tensor& memory,
                    const nn::StepContext& context) const {
    return attention_->forward(
        query, key_value_->forward(memory, context.of_stack(nn::AttentionOptions().memory_stack)),
        context);
  }

  at::Tensor attend_stored(const at::Tensor& query, const nn::StepContext& context) const {
    context.services.memories->project(
        layer_, [&](const at::Tensor& memory, const nn::StepContext& of_source) {
          return key_value_->forward(memory, of_source);
        });
    return attention_->forward_stored(query, context);
  }

  int64_t layer_;
  std::unique_ptr<nn::Linear> query_;
  std::unique_ptr<nn::Linear> key_value_;
  std::unique_ptr<nn::CrossAttention> attention_;
  std::unique_ptr<nn::Linear> output_;
  std::unique_ptr<nn::Dropout> dropout_;
};

// Computes each token independently.
class Mlp {
 public:
  virtual ~Mlp() = default;
  virtual at::Tensor forward(const at::Tensor& x, const nn::StepContext& context) const = 0;
};

class OneMlp : public Mlp {
 public:
  OneMlp(const BlockMaker& make, const std::string& name, int64_t inner)
      : up_(make.mlp_up(name, inner)),
        gated_activation_(make.gated_activation(name)),
        activation_(make.config().activation),
        down_(make.mlp_down(name, inner)) {}

  at::Tensor forward(const at::Tensor& x, const nn::StepContext& context) const override {
    const at::Tensor up = up_->forward(x, context);
    const at::Tensor activated = gated_activation_ ? gated_activation_->forward(up, context)
                                                   : ops::activate(up, activation_);
    return down_->forward(activated, context);
  }

 private:
  std::unique_ptr<nn::Linear> up_;
  std::unique_ptr<nn::GatedActivation> gated_activation_;  // null: not gated
  ops::Activation activation_;
  std::unique_ptr<nn::Linear> down_;
};

class ManyMlps : public Mlp {
 public:
  explicit ManyMlps(const BlockMaker& make) : experts_(make.experts()) {
    const int64_t inner = make.config().shared_inner;
    if (inner == 0) return;
    shared_ = std::make_unique<OneMlp>(make, "shared_mlp", inner);
    shared_gate_ = make.shared_gate();
  }

  at::Tensor forward(const at::Tensor& x, const nn::StepContext& context) const override {
    if (!shared_) return experts_->forward(x, context, nullptr);
    at::Tensor shared;
    const at::Tensor routed = experts_->forward(x, context, [&] {
      shared = shared_->forward(x, context);
      if (shared_gate_) shared = at::sigmoid(shared_gate_->forward(x, context)) * shared;
    });
    return routed + shared;
  }

 private:
  std::unique_ptr<nn::Experts> experts_;
  std::unique_ptr<Mlp> shared_;              // null: none
  std::unique_ptr<nn::Linear> shared_gate_;  // null: none
};

std::unique_ptr<Mlp> make_mlp(const BlockMaker& make) {
  if (make.has_experts()) return std::make_unique<ManyMlps>(make);
  return std::make_unique<OneMlp>(make, "mlp", make.config().inner);
}

// The MLP or the experts, with dropout, without norms.
class MlpBranch {
 public:
  explicit MlpBranch(const BlockMaker& make) : mlp_(make_mlp(make)), dropout_(make.mlp_dropout()) {}

  at::Tensor forward(const at::Tensor& x, const nn::StepContext& context) const {
    return dropout_->forward(mlp_->forward(x, context), context);
  }

 private:
  std::unique_ptr<Mlp> mlp_;
  std::unique_ptr<nn::Dropout> dropout_;
};

at::Tensor normed(const std::unique_ptr<nn::Norm>& norm, const at::Tensor& x,
                  const nn::StepContext& context) {
  return norm ? norm->forward(x, context) : x;
}

// First the attention, then the MLP, which reads the result of the attention.
class SequentialBlock : public nn::Block {
 public:
  explicit SequentialBlock(const BlockMaker& make)
      : place_(make.config().norm_place),
        residual_of_norm_(make.config().residual_of_norm),
        scale_(make.config().branch_scale),
        attention_norm_(make.norm_if(make.has_attention_norm(), "attention_norm")),
        attention_(make),
        attention_scale_(make.feature_scale("attention_scale")),
        attention_output_norm_(make.norm_if(!is_before(), "attention_output_norm")),
        mlp_norm_(make.norm_if(make.config().has_norm_before(), "mlp_norm")),
        mlp_(make),
        mlp_scale_(make.feature_scale("mlp_scale")),
        mlp_output_norm_(make.norm_if(!is_before(), "mlp_output_norm")) {}

  nn::BlockState forward(const nn::BlockState& state, const nn::StepContext& context) override {
    at::Tensor x = state.output();
    at::Tensor y = normed(attention_norm_, x, context);
    const at::Tensor attended =
        scaled(attention_.forward(y, state.conditions, context), attention_scale_);
    if (residual_of_norm_) x = y;
    switch (place_) {
      case Place::before:
        std::tie(x, y) = mlp_norm_->add_forward(x, attended, context);
        break;
      case Place::after:
        x = y = x + attention_output_norm_->forward(attended, context);
        break;
      case Place::around:
        std::tie(x, y) =
            mlp_norm_->add_forward(x, attention_output_norm_->forward(attended, context), context);
        break;
      case Place::residual:
        x = y = attention_output_norm_->add_forward(x, attended, context).second;
        break;
    }
    if (residual_of_norm_) x = y;
    return {{join(x, scaled(mlp_.forward(y, context), mlp_scale_), context)}, state.conditions};
  }

 private:
  using Place = TransformerConfig::NormPlace;

  bool is_before() const { return place_ == Place::before; }

  at::Tensor scaled(const at::Tensor& branch,
                    const std::optional<nn::FeatureScale>& of_features) const {
    if (of_features) return of_features->forward(branch);
    return scale_ == 1 ? branch : branch * scale_;
  }

  at::Tensor join(const at::Tensor& x, const at::Tensor& branch,
                  const nn::StepContext& context) const {
    if (place_ == Place::before) return x + branch;
    if (place_ == Place::residual) return mlp_output_norm_->add_forward(x, branch, context).second;
    return x + mlp_output_norm_->forward(branch, context);
  }

  Place place_;
  bool residual_of_norm_;
  double scale_;
  std::unique_ptr<nn::Norm> attention_norm_;  // norms that norm_place does not have are null
  AttentionBranch attention_;
  std::optional<nn::FeatureScale> attention_scale_;
  std::unique_ptr<nn::Norm> attention_output_norm_;
  std::unique_ptr<nn::Norm> mlp_norm_;
  MlpBranch mlp_;
  std::optional<nn::FeatureScale> mlp_scale_;
  std::unique_ptr<nn::Norm> mlp_output_norm_;
};

// A decoder's block in an encoder-decoder: attention, then attention to the encoder's output, then
// the MLP. Each reads the result of the one before.
class CrossAttendingBlock : public nn::Block {
 public:
  explicit CrossAttendingBlock(const BlockMaker& make)
      : attention_norm_(make, "attention"),
        attention_(make),
        cross_attention_norm_(make, "cross_attention"),
        cross_attention_(make),
        mlp_norm_(make, "mlp"),
        mlp_(make) {}

  nn::BlockState forward(const nn::BlockState& state, const nn::StepContext& context) override {
    const auto attend = [&](const auto& attention) {
      return [&](const at::Tensor& x) { return attention.forward(x, state.conditions, context); };
    };
    at::Tensor x = attention_norm_.around(attend(attention_), state.output(), context);
    x = cross_attention_norm_.around(attend(cross_attention_), x, context);
    x = mlp_norm_.around([&](const at::Tensor& y) { return mlp_.forward(y, context); }, x, context);
    return {{x}, state.conditions};
  }

 private:
  // The norm of a branch.
  class BranchNorm {
   public:
    BranchNorm(const BlockMaker& make, const std::string& branch)
        : before_(make.norm_if(make.config().has_norm_before(), branch + "_norm")),
          after_(make.norm_if(!make.config().has_norm_before(), branch + "_output_norm")) {}

    // Returns the residual stream x after the branch.
    template <typename Branch>
    at::Tensor around(const Branch& branch, const at::Tensor& x,
                      const nn::StepContext& context) const {
      if (before_) return x + branch(before_->forward(x, context));
      return after_->add_forward(x, branch(x), context).second;
    }

   private:
    std::unique_ptr<nn::Norm> before_, after_;  // one of them is null
  };

  BranchNorm attention_norm_;
  AttentionBranch attention_;
  BranchNorm cross_attention_norm_;
  CrossAttentionBranch cross_attention_;
  BranchNorm mlp_norm_;
  MlpBranch mlp_;
};

// Attention and MLP read the same input; both results are added to it.
class ParallelBlock : public nn::Block {
 public:
  explicit ParallelBlock(const BlockMaker& make)
      : attention_norm_(make.norm_if(true, "attention_norm")),
        attention_(make),
        mlp_norm_(make.norm_if(!make.config().shared_norm, "mlp_norm")),
        mlp_(make) {}

  nn::BlockState forward(const nn::BlockState& state, const nn::StepContext& context) override {
    const at::Tensor& x = state.output();
    const at::Tensor y = attention_norm_->forward(x, context);
    const at::Tensor attended = attention_.forward(y, state.conditions, context);
    const at::Tensor of_mlp = mlp_.forward(mlp_norm_ ? mlp_norm_->forward(x, context) : y, context);
    return {{x + attended + of_mlp}, state.conditions};
  }

 private:
  std::unique_ptr<nn::Norm> attention_norm_;
  AttentionBranch attention_;
  std::unique_ptr<nn::Norm> mlp_norm_;  // null: attention_norm_ for both
  MlpBranch mlp_;
};

}  // namespace

std::unique_ptr<nn::Norm> make_norm(nn::Builder& build, const std::string& name,
                                    const TransformerConfig& config) {
  const nn::NormOptions options{.features = config.hidden,
                                .epsilon = config.norm_epsilon,
                                .weight = config.norm_weight,
                                .bias = config.norm_bias,
                                .unit_offset = config.norm_unit_offset};
  return config.norm == TransformerConfig::Norm::rms ? build.rms_norm(name, options)
                                                     : build.layer_norm(name, options);
}

std::unique_ptr<nn::Block> make_transformer_block(nn::Builder& build,
                                                  const TransformerConfig& config, int64_t layer,
                                                  int64_t before) {
  const auto scope = build.scope(fmt::format("blocks.{}", before + layer));
  const BlockMaker make(build, config, layer, before);
  if (config.parallel_branches) return std::make_unique<ParallelBlock>(make);
  if (config.has_cross_attention(layer)) {
    using Place = TransformerConfig::NormPlace;
    COLOSSAL_CHECK(config.norm_place == Place::before || config.norm_place == Place::residual,
                   "{}: cross-attention with norms at another place", config.family);
    return std::make_unique<CrossAttendingBlock>(make);
  }
  return std::make_unique<SequentialBlock>(make);
}

}  // namespace colossal::models
