#include "colossal/models/gpt2/model.h"

#include <cmath>
#include <tuple>

#include "colossal/ops/elementwise.h"

namespace colossal::models::gpt2 {
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
  std::unique_ptr<nn::Dropout> attention_dropout_;
  std::unique_ptr<nn::Norm> mlp_norm_;
  std::unique_ptr<nn::Linear> mlp_up_;
  std::unique_ptr<nn::Linear> mlp_down_;
  std::unique_ptr<nn::Dropout> mlp_dropout_;
};

// GPT-2 scales the projections that end on the residual stream by 1 / sqrt(2 layers), so that its
// variance does not grow with depth.
nn::LinearOptions linear_options(const Config& config, int64_t in, int64_t out, bool to_residual) {
  const double deviation =
      config.initializer_range *
      (to_residual ? 1 / std::sqrt(2.0 * static_cast<double>(config.n_layer)) : 1.0);
  return {.in_features = in,
          .out_features = out,
          .order = nn::WeightOrder::in_out,
          .initializer = nn::Initializer::normal(deviation)};
}

TransformerBlock::TransformerBlock(nn::Builder& build, const Config& config, int64_t layer) {
  const int64_t hidden = config.n_embd;
  const nn::NormOptions norm{.features = hidden, .epsilon = config.layer_norm_epsilon};
  const int64_t head_size = hidden / config.n_head;
  auto scope = build.scope(fmt::format("blocks.{}", layer));
  attention_norm_ = build.layer_norm("attention_norm", norm);
  qkv_ = build.linear("qkv", linear_options(config, hidden, 3 * hidden, false));
  attention_ = build.attention("attention", {.layer = layer,
                                             .heads = config.n_head,
                                             .kv_heads = config.n_head,
                                             .head_size = head_size,
                                             .scale = 1 / std::sqrt(static_cast<double>(head_size)),
                                             .dropout = config.attn_pdrop});
  attention_output_ =
      build.linear("attention_output", linear_options(config, hidden, hidden, true));
  attention_dropout_ = build.dropout("attention_dropout", config.resid_pdrop);
  mlp_norm_ = build.layer_norm("mlp_norm", norm);
  mlp_up_ = build.linear("mlp_up", linear_options(config, hidden, config.inner(), false));
  mlp_down_ = build.linear("mlp_down", linear_options(config, config.inner(), hidden, true));
  mlp_dropout_ = build.dropout("mlp_dropout", config.resid_pdrop);
}

at::Tensor TransformerBlock::forward(const at::Tensor& input, const nn::StepContext& context) {
  at::Tensor x = input;
  at::Tensor y = qkv_->forward(attention_norm_->forward(x, context), context);
  y = attention_output_->forward(attention_->forward(y, context), context);
  y = attention_dropout_->forward(y, context);
  std::tie(x, y) = mlp_norm_->add_forward(x, y, context);
  y = ops::gelu_new(mlp_up_->forward(y, context));
  return x + mlp_dropout_->forward(mlp_down_->forward(y, context), context);
}

}  // namespace

Model::Model(nn::Builder& build, const Config& config) {
  const nn::Initializer normal = nn::Initializer::normal(config.initializer_range);
  const nn::EmbeddingOptions table{config.vocab_size, config.n_embd, normal};
  build.begin_part({nn::ModelPart::Kind::embedding});
  token_embedding_ = build.embedding("token_embedding", table);
  position_embedding_ =
      build.position_embedding("position_embedding", {config.n_positions, config.n_embd, normal});
  embedding_dropout_ = build.dropout("embedding_dropout", config.embd_pdrop);
  blocks_ = nn::Blocks(build, config.n_layer, [&](int64_t layer) {
    return std::make_unique<TransformerBlock>(build, config, layer);
  });
  build.begin_part({nn::ModelPart::Kind::head});
  final_norm_ = build.layer_norm("final_norm",
                                 {.features = config.n_embd, .epsilon = config.layer_norm_epsilon});
  head_ = config.tie_word_embeddings ? build.tied_vocabulary_head("token_embedding", table)
                                     : build.vocabulary_head("head", table);
}

}  // namespace colossal::models::gpt2
