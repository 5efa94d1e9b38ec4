#include "colossal/models/transformer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include "colossal/base/error.h"
#include "colossal/models/transformer_block.h"

namespace colossal::models {

Transformer::Transformer(nn::Builder& build, const TransformerConfig& config)
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
  if (config.token_types > 0) {
    type_embedding_ = build.position_embedding(
        "token_type_embedding",
        {.vocabulary = config.token_types, .features = config.hidden, .initializer = normal});
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
                       [&](int64_t layer) { return make_transformer_block(build, config, layer); });
  build.begin_part({nn::ModelPart::Kind::head});
  if (config.final_norm) final_norm_ = make_norm(build, "final_norm", config);
  if (const auto& transform = config.head_transform) {
    head_transform_ = build.hidden_linear("head_transform", {.in_features = config.hidden,
                                                             .out_features = config.hidden,
                                                             .bias = transform->bias,
                                                             .initializer = normal});
    head_activation_ = transform->activation;
    if (transform->norm) head_norm_ = make_norm(build, "head_norm", config);
  }
  if (config.scores > 0) {
    head_transform_dropout_ =
        build.dropout("head_transform_dropout", config.head_transform_dropout);
    score_dropout_ = build.dropout("score_dropout", config.score_dropout);
    head_ = build.vocabulary_head(
        "score", {.table = {config.scores, config.hidden, normal}, .bias = config.score_bias});
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
void Transformer::freeze_tables(const nn::Builder& build) {
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    const std::string& name = parameter->name;
    if (name.starts_with("token_embedding.") || name.starts_with("head.")) {
      parameter->trainable = false;
    }
  }
}

namespace {

// Returns the context with token types in the place of positions, for the layer that looks up the
// embeddings of token types.
nn::StepContext with_token_types(const nn::StepContext& context) {
  nn::StepContext typed = context;
  typed.positions =
      context.token_types.defined() ? context.token_types : at::zeros_like(context.positions);
  return typed;
}

}  // namespace

at::Tensor Transformer::embed(const at::Tensor& tokens, const nn::StepContext& context) {
  // Tokens before positions, as in the order of parameters: backward then computes the gradients of
  // positions before those of tokens.
  at::Tensor x = token_embedding_->forward(tokens, context);
  // The scale is rounded to the type of the embeddings, as in transformers.
  if (embedding_scale_ != 1) x = x * at::full({}, embedding_scale_, x.options());
  if (type_embedding_) x = x + type_embedding_->forward(with_token_types(context));
  if (position_embedding_) x = x + position_embedding_->forward(behind_virtual_tokens(context));
  if (embedding_norm_) x = embedding_norm_->forward(x, context);
  x = embedding_dropout_->forward(x, context);
  if (!state_product_) return x;
  // A dry run has no target model; only the shape of the states matters there.
  const at::Tensor& states = context.states.defined() ? context.states : x;
  return embedding_product_->forward(x, context) + state_product_->forward(states, context);
}

at::Tensor Transformer::run_blocks(Range blocks, const at::Tensor& x,
                                   const nn::StepContext& context) {
  return blocks_.forward(blocks, x, behind_virtual_tokens(context));
}

nn::StepContext Transformer::behind_virtual_tokens(const nn::StepContext& context) const {
  nn::StepContext behind = context;
  if (virtual_tokens_ == 0 || !context.adapted) return behind;
  behind.positions = context.positions + virtual_tokens_;
  behind.length += virtual_tokens_;
  if (context.lengths.defined()) behind.lengths = context.lengths + virtual_tokens_;
  return behind;
}

at::Tensor Transformer::final_states(const at::Tensor& x, const nn::StepContext& context) {
  return final_norm_ ? final_norm_->forward(x, context) : x;
}

at::Tensor Transformer::head_input(const at::Tensor& states, const nn::StepContext& context) {
  at::Tensor y = states;
  if (head_transform_) {
    if (head_transform_dropout_) y = head_transform_dropout_->forward(y, context);
    y = ops::activate(head_transform_->forward(y, context), head_activation_);
    if (head_norm_) y = head_norm_->forward(y, context);
  }
  return score_dropout_ ? score_dropout_->forward(y, context) : y;
}

at::Tensor Transformer::head_loss_sum(const at::Tensor& x, const at::Tensor& labels,
                                      const nn::StepContext& context) {
  return head_->loss_sum(head_input(final_states(x, context), context), labels, context);
}

at::Tensor Transformer::head_log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                               const nn::StepContext& context) {
  return head_->log_probabilities(head_input(final_states(x, context), context), labels, context);
}

at::Tensor Transformer::local_logits(const at::Tensor& x, const nn::StepContext& context) {
  return head_->logits_here(head_input(final_states(x, context), context), context);
}

at::Tensor Transformer::head_divergences(const at::Tensor& x, const at::Tensor& teacher,
                                         double beta, const nn::StepContext& context) {
  return head_->divergences(head_input(final_states(x, context), context), teacher, beta, context);
}

at::Tensor Transformer::head_scores(const at::Tensor& x, const nn::StepContext& context) {
  return head_->scores(head_input(final_states(x, context), context), context);
}

at::Tensor Transformer::head_values(const at::Tensor& x, const nn::StepContext& context) {
  COLOSSAL_CHECK(value_head_ != nullptr, "a model without a head for values");
  return value_head_->scores(final_states(x, context), context).squeeze(-1);
}

at::Tensor Transformer::head_logits(const at::Tensor& x, const nn::StepContext& context,
                                    const at::Tensor& wanted) {
  return logits_of_states(final_states(x, context), context, wanted);
}

at::Tensor Transformer::logits_of_states(const at::Tensor& states, const nn::StepContext& context,
                                         const at::Tensor& wanted) {
  return head_->logits(head_input(states, context), context, wanted);
}

at::Tensor Transformer::gathered_states(const at::Tensor& states, const nn::StepContext& context,
                                        const at::Tensor& wanted) {
  return head_->gathered_states(states, context, wanted);
}

}  // namespace colossal::models
