#include "colossal/models/decoder.h"

#include <ATen/ops/full.h>

#include "colossal/base/error.h"
#include "colossal/models/decoder_block.h"

namespace colossal::models {

Decoder::Decoder(nn::Builder& build, const DecoderConfig& config)
    : virtual_tokens_(build.virtual_tokens()), embedding_scale_(config.embedding_scale) {
  const nn::Initializer normal = nn::Initializer::normal(config.initializer_range);
  const nn::EmbeddingOptions table{config.vocabulary, config.hidden, normal};
  build.begin_part({nn::ModelPart::Kind::embedding});
  token_embedding_ = build.embedding("token_embedding", table);
  if (config.learned_positions) {
    position_embedding_ = build.position_embedding(
        "position_embedding", {.vocabulary = config.positions + config.position_offset,
                               .features = config.hidden,
                               .initializer = normal,
                               .first_row = config.position_offset});
  }
  if (config.embedding_norm) embedding_norm_ = make_norm(build, "embedding_norm", config);
  embedding_dropout_ = build.dropout("embedding_dropout", config.embedding_dropout);
  if (config.is_draft_head) {
    const nn::LinearOptions product{.in_features = config.hidden,
                                    .out_features = config.hidden,
                                    .bias = false,
                                    .initializer = normal};
    embedding_product_ = build.linear("embedding_product", product);
    state_product_ = build.linear("state_product", product);
  }
  blocks_ = nn::Blocks(build, config.layers,
                       [&](int64_t layer) { return make_decoder_block(build, config, layer); });
  build.begin_part({nn::ModelPart::Kind::head});
  if (config.final_norm) final_norm_ = make_norm(build, "final_norm", config);
  if (config.score_head) {
    head_ = build.vocabulary_head("score", {.table = {1, config.hidden, normal}});
    return;
  }
  const nn::VocabularyHeadOptions head{.table = table,
                                       .bias = config.head_bias,
                                       .logit_scale = config.logit_scale,
                                       .soft_cap = config.logit_soft_cap};
  head_ = config.tied_head ? build.tied_vocabulary_head("head", "token_embedding", head)
                           : build.vocabulary_head("head", head);
  if (config.value_head) {
    value_head_ = build.vocabulary_head("value", {.table = {1, config.hidden, normal}});
  }
  if (config.is_draft_head) freeze_tables(build);
}

// A draft head uses the tables of its target model, which must not change.
void Decoder::freeze_tables(const nn::Builder& build) {
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    const std::string& name = parameter->name;
    if (name.starts_with("token_embedding.") || name.starts_with("head.")) {
      parameter->trainable = false;
    }
  }
}

at::Tensor Decoder::embed(const at::Tensor& tokens, const nn::StepContext& context) {
  // Tokens before positions, as in the order of parameters: backward then computes the gradients of
  // positions before those of tokens.
  at::Tensor x = token_embedding_->forward(tokens, context);
  // The scale is rounded to the type of the embeddings, as in transformers.
  if (embedding_scale_ != 1) x = x * at::full({}, embedding_scale_, x.options());
  if (position_embedding_) x = x + position_embedding_->forward(behind_virtual_tokens(context));
  if (embedding_norm_) x = embedding_norm_->forward(x, context);
  x = embedding_dropout_->forward(x, context);
  if (!state_product_) return x;
  // A dry run has no target model; only the shape of the states matters there.
  const at::Tensor& states = context.states.defined() ? context.states : x;
  return embedding_product_->forward(x, context) + state_product_->forward(states, context);
}

at::Tensor Decoder::run_blocks(Range blocks, const at::Tensor& x, const nn::StepContext& context) {
  return blocks_.forward(blocks, x, behind_virtual_tokens(context));
}

nn::StepContext Decoder::behind_virtual_tokens(const nn::StepContext& context) const {
  nn::StepContext behind = context;
  if (virtual_tokens_ == 0 || !context.adapted) return behind;
  behind.positions = context.positions + virtual_tokens_;
  behind.length += virtual_tokens_;
  if (context.lengths.defined()) behind.lengths = context.lengths + virtual_tokens_;
  return behind;
}

at::Tensor Decoder::final_states(const at::Tensor& x, const nn::StepContext& context) {
  return final_norm_ ? final_norm_->forward(x, context) : x;
}

at::Tensor Decoder::head_loss_sum(const at::Tensor& x, const at::Tensor& labels,
                                  const nn::StepContext& context) {
  return head_->loss_sum(final_states(x, context), labels, context);
}

at::Tensor Decoder::head_log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                           const nn::StepContext& context) {
  return head_->log_probabilities(final_states(x, context), labels, context);
}

at::Tensor Decoder::local_logits(const at::Tensor& x, const nn::StepContext& context) {
  return head_->logits_here(final_states(x, context), context);
}

at::Tensor Decoder::head_divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                     const nn::StepContext& context) {
  return head_->divergences(final_states(x, context), teacher, beta, context);
}

at::Tensor Decoder::head_scores(const at::Tensor& x, const nn::StepContext& context) {
  return head_->scores(final_states(x, context), context).squeeze(-1);
}

at::Tensor Decoder::head_values(const at::Tensor& x, const nn::StepContext& context) {
  COLOSSAL_CHECK(value_head_ != nullptr, "a model without a head for values");
  return value_head_->scores(final_states(x, context), context).squeeze(-1);
}

at::Tensor Decoder::head_logits(const at::Tensor& x, const nn::StepContext& context,
                                const at::Tensor& wanted) {
  return logits_of_states(final_states(x, context), context, wanted);
}

at::Tensor Decoder::logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                                     const at::Tensor& wanted) {
  return head_->logits(states, context, wanted);
}

at::Tensor Decoder::gathered_states(const at::Tensor& states, const nn::StepContext& context,
                                    const at::Tensor& wanted) {
  return head_->gathered_states(states, context, wanted);
}

}  // namespace colossal::models
