#include "colossal/models/llama/model.h"

#include <cmath>
#include <tuple>

namespace colossal::models::llama {
namespace {

class TransformerBlock : public nn::Block {
 public:
  TransformerBlock(nn::Builder& build, const Config& config, int64_t layer);
  at::Tensor forward(const at::Tensor& x, const nn::StepContext& context) override;

 private:
  std::unique_ptr<nn::Norm> attention_norm_;
  std::unique_ptr<nn::Linear> qkv_;
  std::unique_ptr<nn::Attention> attention_;
  std::unique_ptr<nn::Linear> attention_output_;
  std::unique_ptr<nn::Norm> mlp_norm_;
  std::unique_ptr<nn::Linear> gate_up_;
  std::unique_ptr<nn::GatedActivation> activation_;
  std::unique_ptr<nn::Linear> mlp_down_;
};

TransformerBlock::TransformerBlock(nn::Builder& build, const Config& config, int64_t layer) {
  const int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const int64_t queries = config.num_attention_heads * config.head_dim;
  const int64_t keys = config.num_key_value_heads * config.head_dim;
  const nn::NormOptions norm{.features = hidden, .epsilon = config.rms_norm_eps};
  const nn::Initializer normal = nn::Initializer::normal(config.initializer_range);
  auto scope = build.scope(fmt::format("blocks.{}", layer));
  attention_norm_ = build.rms_norm("attention_norm", norm);
  qkv_ = build.fused_linear({.in_features = hidden,
                             .parts = {{"query", queries}, {"key", keys}, {"value", keys}},
                             .bias = config.qkv_bias(),
                             .initializer = normal});
  attention_ =
      build.attention("attention", {.layer = layer,
                                    .heads = config.num_attention_heads,
                                    .kv_heads = config.num_key_value_heads,
                                    .head_size = config.head_dim,
                                    .scale = 1 / std::sqrt(static_cast<double>(config.head_dim)),
                                    .dropout = config.attention_dropout,
                                    .rotary = config.rotary});
  attention_output_ = build.linear("attention_output", {.in_features = queries,
                                                        .out_features = hidden,
                                                        .bias = config.output_bias(),
                                                        .initializer = normal});
  mlp_norm_ = build.rms_norm("mlp_norm", norm);
  gate_up_ = build.fused_linear({.in_features = hidden,
                                 .parts = {{"mlp_gate", inner}, {"mlp_up", inner}},
                                 .bias = config.mlp_bias,
                                 .initializer = normal});
  activation_ = build.swiglu("mlp_activation");
  mlp_down_ = build.linear("mlp_down", {.in_features = inner,
                                        .out_features = hidden,
                                        .bias = config.mlp_bias,
                                        .initializer = normal});
}

at::Tensor TransformerBlock::forward(const at::Tensor& input, const nn::StepContext& context) {
  at::Tensor x = input;
  at::Tensor y = qkv_->forward(attention_norm_->forward(x, context), context);
  y = attention_output_->forward(attention_->forward(y, context), context);
  std::tie(x, y) = mlp_norm_->add_forward(x, y, context);
  y = activation_->forward(gate_up_->forward(y, context), context);
  return x + mlp_down_->forward(y, context);
}

}  // namespace

Model::Model(nn::Builder& build, const Config& config) {
  const nn::EmbeddingOptions table{config.vocab_size, config.hidden_size,
                                   nn::Initializer::normal(config.initializer_range)};
  build.begin_part({nn::ModelPart::Kind::embedding});
  token_embedding_ = build.embedding("token_embedding", table);
  blocks_ = nn::Blocks(build, config.num_hidden_layers, [&](int64_t layer) {
    return std::make_unique<TransformerBlock>(build, config, layer);
  });
  build.begin_part({nn::ModelPart::Kind::head});
  final_norm_ = build.rms_norm("final_norm",
                               {.features = config.hidden_size, .epsilon = config.rms_norm_eps});
  head_ = config.tie_word_embeddings ? build.tied_vocabulary_head("token_embedding", table)
                                     : build.vocabulary_head("head", table);
}

}  // namespace colossal::models::llama
