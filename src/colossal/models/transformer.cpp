#include "colossal/models/transformer.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/data/image_batch.h"
#include "colossal/data/text_batch.h"
#include "colossal/models/token_grids.h"
#include "colossal/models/transformer_block.h"

namespace colossal::models {
namespace {

constexpr size_t kSource = 0;  // the stack of an encoder-decoder that reads the source

}  // namespace

Transformer::InputLayers::InputLayers(nn::Builder& build, const TransformerConfig& config,
                                      const std::string& prefix) {
  const nn::Initializer normal = nn::Initializer::normal(config.initializer_range);
  if (config.learned_positions) {
    positions = build.position_embedding(prefix + "position_embedding",
                                         {.vocabulary = config.positions + config.position_offset,
                                          .features = config.hidden,
                                          .initializer = normal,
                                          .first_row = config.position_offset});
  }
  if (config.token_types > 0) {
    types = build.position_embedding(
        prefix + "token_type_embedding",
        {.vocabulary = config.token_types, .features = config.hidden, .initializer = normal});
  }
  if (config.embedding_norm) norm = make_norm(build, prefix + "embedding_norm", config);
  dropout = build.dropout(prefix + "embedding_dropout", config.embedding_dropout);
}

Transformer::Transformer(nn::Builder& build, const TransformerConfig& config)
    : virtual_tokens_(build.virtual_tokens()),
      embedding_scale_(config.embedding_scale),
      encoder_layers_(config.encoder_layers),
      gives_scores_(config.scores > 0),
      reconstructs_(config.reconstructs),
      patches_(config.patches),
      scored_position_(config.scored_position) {
  const nn::Initializer normal = nn::Initializer::normal(config.initializer_range);
  const auto range_or = [&](double range) {
    return range > 0 ? nn::Initializer::normal(range) : normal;
  };
  const nn::EmbeddingOptions table{config.vocabulary, config.hidden,
                                   range_or(config.initial_ranges.embedding)};
  build.begin_part({nn::ModelPart::Kind::embedding});
  if (patches_) {
    patch_embedding_.emplace(build, "patch_embedding", *patches_);
  } else {
    token_embedding_ = build.embedding("token_embedding", table);
  }
  input_ = InputLayers(build, config, "");
  if (encoder_layers_ > 0) encoder_input_ = InputLayers(build, config, "encoder_");
  if (config.relative_buckets > 0) {
    nn::RelativeBiasOptions bias{.heads = config.heads,
                                 .buckets = config.relative_buckets,
                                 .max_distance = config.relative_distance,
                                 .initializer = range_or(config.initial_ranges.relative_bias)};
    encoder_bias_ = build.relative_bias("encoder_relative_bias", bias);
    bias.bidirectional = false;
    decoder_bias_ = build.relative_bias("relative_bias", bias);
  }
  if (config.is_draft_head) {
    const nn::LinearOptions product{.in_features = config.hidden,
                                    .out_features = config.hidden,
                                    .bias = false,
                                    .initializer = normal};
    embedding_product_ = build.linear("embedding_product", product);
    state_product_ = build.linear("state_product", product);
  }
  blocks_ = nn::Blocks(build, config.layers, [&](int64_t layer) {
    // The first block of the decoder reads the encoder's output: the stage that has this block also
    // has the norm of the output.
    if (encoder_layers_ > 0 && layer == encoder_layers_ && config.final_norm) {
      encoder_norm_ = make_norm(build, "encoder_norm", config);
    }
    if (layer == encoder_layers_ && config.final_dropout > 0) {
      encoder_final_dropout_ = build.dropout("encoder_final_dropout", config.final_dropout);
    }
    return make_transformer_block(build, config, layer);
  });
  build.begin_part({nn::ModelPart::Kind::head});
  if (config.final_norm) final_norm_ = make_norm(build, "final_norm", config);
  if (config.scores_before_norm) {
    freeze(build, "final_norm.");
    final_norm_.reset();
  }
  if (config.final_dropout > 0) {
    final_dropout_ = build.dropout("final_dropout", config.final_dropout);
  }
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
    if (scored_position_ == TransformerConfig::ScoredPosition::first_and_patches) {
      patch_head_ = build.vocabulary_head("score_of_patches",
                                          {.table = {config.scores, config.hidden, normal}});
    }
    return;
  }
  if (config.reconstructs) {
    const int64_t pixels = patches_->channels * patches_->patch * patches_->patch;
    head_ = build.vocabulary_head("reconstruction",
                                  {.table = {pixels, config.hidden, normal}, .bias = true});
  }
  if (patches_) return;
  nn::EmbeddingOptions rows = table;
  rows.initializer = range_or(config.initial_ranges.head);
  const nn::VocabularyHeadOptions head{.table = rows,
                                       .bias = config.head_bias,
                                       .logit_scale = config.logit_scale,
                                       .soft_cap = config.logit_soft_cap};
  head_ = config.tied_head ? build.tied_vocabulary_head("head", "token_embedding", head)
                           : build.vocabulary_head("head", head);
  if (config.value_head) {
    value_head_ = build.vocabulary_head("value", {.table = {1, config.hidden, normal}});
  }
  if (config.is_draft_head) {  // its tables are those of its target model, which must not change
    freeze(build, "token_embedding.");
    freeze(build, "head.");
  }
}

Transformer::Parts Transformer::parts() {
  Parts parts;
  if (token_embedding_) parts = {.text_inputs = this, .token_head = this};
  if (gives_scores_) parts.score_head = this;
  if (reconstructs_) parts.pixel_head = this;
  if (value_head_) parts.value_head = this;
  return parts;
}

void Transformer::freeze(const nn::Builder& build, std::string_view prefix) {
  for (const nn::ParameterHandle& parameter : build.parameters()) {
    if (parameter->name.starts_with(prefix)) parameter->trainable = false;
  }
}

namespace {

// Returns the context with token types in the place of positions, for the layer that looks up the
// embeddings of token types. types: undefined: all are 0.
nn::StepContext with_token_types(const nn::StepContext& context, const at::Tensor& types) {
  nn::StepContext typed = context;
  at::Tensor& positions = typed.tokens().positions;
  positions = types.defined() ? types : at::zeros_like(positions);
  return typed;
}

}  // namespace

at::Tensor Transformer::embed(const at::Tensor& tokens, const at::Tensor& types,
                              const InputLayers& layers, const nn::StepContext& context) {
  // Tokens before positions, as in the order of parameters: backward then computes the gradients of
  // positions before those of tokens.
  at::Tensor x = token_embedding_->forward(tokens, context);
  // The scale is rounded to the type of the embeddings, as in transformers.
  if (embedding_scale_ != 1) x = x * at::full({}, embedding_scale_, x.options());
  if (layers.types) x = x + layers.types->forward(with_token_types(context, types));
  if (layers.positions) x = x + layers.positions->forward(behind_virtual_tokens(context));
  if (layers.norm) x = layers.norm->forward(x, context);
  return layers.dropout->forward(x, context);
}

nn::StepContext Transformer::context_of(const data::Batch& batch, const nn::StepContext& base,
                                        const nn::SequencePart& part) const {
  if (patches_) {
    return context_with(base, batch, {image_grid(batch, part, patches_->num_tokens())});
  }
  if (encoder_layers_ == 0) return context_with(base, batch, {text_grid(batch, part)});
  return context_with(base, batch, {source_grid(batch, part), text_grid(batch, part)});
}

nn::BlockState Transformer::inputs(const data::Batch& batch, const nn::StepContext& context) {
  if (!patch_embedding_) {
    return embed({.tokens = batch.at(data::kTokens),
                  .types = batch.find(data::kTokenTypes),
                  .source = batch.find(data::kSource),
                  .target_states = batch.find(data::kTargetStates)},
                 context);
  }
  at::Tensor x =
      patch_embedding_->forward(batch.at(data::kPixels), batch.find(data::kMasks), context);
  if (input_.norm) x = input_.norm->forward(x, context);
  return {{input_.dropout->forward(x, context)}};
}

nn::BlockState Transformer::embed(const TokenInputs& inputs, const nn::StepContext& context) {
  const at::Tensor x = embed(inputs.tokens, inputs.types, input_, context);
  if (encoder_layers_ > 0) {
    nn::BlockState state;
    if (!context.services.memories) {
      COLOSSAL_CHECK(inputs.source.defined(), "an encoder-decoder without a source");
      const nn::StepContext reading = context.of_stack(kSource);
      state.streams.push_back(embed(inputs.source, /*types=*/{}, encoder_input_, reading));
      if (encoder_bias_) state.conditions.push_back(encoder_bias_->forward(reading));
    }
    state.streams.push_back(x);
    if (decoder_bias_) state.conditions.push_back(decoder_bias_->forward(context));
    return state;
  }
  if (!state_product_) return {{x}};
  // A dry run has no target model; only the shape of the states matters there.
  const at::Tensor& states = inputs.target_states.defined() ? inputs.target_states : x;
  return {{embedding_product_->forward(x, context) + state_product_->forward(states, context)}};
}

at::Tensor Transformer::encoder_output(const at::Tensor& x, const nn::StepContext& context) {
  const at::Tensor y = encoder_norm_ ? encoder_norm_->forward(x, context) : x;
  return encoder_final_dropout_ ? encoder_final_dropout_->forward(y, context) : y;
}

at::Tensor Transformer::encode(const at::Tensor& tokens, const nn::StepContext& context) {
  nn::BlockState state;
  if (encoder_bias_) state.conditions.push_back(encoder_bias_->forward(context));
  state.streams.push_back(embed(tokens, /*types=*/{}, encoder_input_, context));
  return encoder_output(blocks_.forward({0, encoder_layers_}, state, context).output(), context);
}

nn::BlockState Transformer::run_blocks(Range blocks, const nn::BlockState& state,
                                       const nn::StepContext& context) {
  const nn::StepContext writing = behind_virtual_tokens(context);
  if (encoder_layers_ == 0) return blocks_.forward(blocks, state, writing);
  const Range of_encoder{std::min(blocks.begin, encoder_layers_),
                         std::min(blocks.end, encoder_layers_)};
  const Range of_decoder{std::max(blocks.begin, encoder_layers_),
                         std::max(blocks.end, encoder_layers_)};
  nn::BlockState decoder{{state.streams.back()}};
  if (decoder_bias_) decoder.conditions.push_back(state.conditions.back());
  if (context.services.memories) return {{blocks_.forward(of_decoder, decoder, writing).output()}};
  nn::BlockState after = state;
  at::Tensor& read = after.streams.front();
  const nn::StepContext reading = context.of_stack(kSource);
  if (!of_encoder.empty()) {
    nn::BlockState encoder{{read}};
    if (encoder_bias_) encoder.conditions.push_back(state.conditions.front());
    read = blocks_.forward(of_encoder, encoder, reading).output();
  }
  if (of_decoder.empty()) return after;
  if (of_decoder.begin == encoder_layers_) read = encoder_output(read, reading);
  decoder.conditions.push_back(read);
  after.streams.back() = blocks_.forward(of_decoder, decoder, writing).output();
  return after;
}

nn::StepContext Transformer::behind_virtual_tokens(const nn::StepContext& context) const {
  nn::StepContext behind = context;
  if (virtual_tokens_ == 0 || !context.adapted) return behind;
  nn::TokenGrid& grid = behind.tokens();
  grid.positions = grid.positions + virtual_tokens_;
  grid.length += virtual_tokens_;
  if (grid.lengths.defined()) grid.lengths = grid.lengths + virtual_tokens_;
  return behind;
}

at::Tensor Transformer::final_states(const at::Tensor& x, const nn::StepContext& context) {
  const at::Tensor y = final_norm_ ? final_norm_->forward(x, context) : x;
  return final_dropout_ ? final_dropout_->forward(y, context) : y;
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

at::Tensor Transformer::loss_sum(const at::Tensor& x, const at::Tensor& labels,
                                 const nn::StepContext& context) {
  return head_->loss_sum(head_input(final_states(x, context), context), labels, context);
}

at::Tensor Transformer::log_probabilities(const at::Tensor& x, const at::Tensor& labels,
                                          double temperature, const nn::StepContext& context) {
  return head_->log_probabilities(head_input(final_states(x, context), context), labels,
                                  temperature, context);
}

at::Tensor Transformer::local_logits(const at::Tensor& x, double temperature,
                                     const nn::StepContext& context) {
  return head_->logits_here(head_input(final_states(x, context), context), temperature, context);
}

at::Tensor Transformer::divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                                    double temperature, const nn::StepContext& context) {
  return head_->divergences(head_input(final_states(x, context), context), teacher, beta,
                            temperature, context);
}

at::Tensor Transformer::scores(const at::Tensor& x, const nn::StepContext& context) {
  const at::Tensor states = head_input(final_states(x, context), context);
  const at::Tensor scores = head_->scores(states, context);
  if (!patches_) return scores;
  const auto [of_head, of_patch_head] = pooling(scores, context);
  if (!patch_head_) return scores * of_head;
  return scores * of_head + patch_head_->scores(states, context) * of_patch_head;
}

std::pair<at::Tensor, at::Tensor> Transformer::pooling(const at::Tensor& scores,
                                                       const nn::StepContext& context) const {
  using Scored = TransformerConfig::ScoredPosition;
  const int64_t before = patches_->num_prefix_tokens(), tokens = patches_->num_tokens();
  const at::Tensor positions = context.tokens().positions.unsqueeze(-1);
  const at::Tensor first = positions.eq(0).to(scores.scalar_type());
  const at::Tensor mean_of_patches =
      positions.ge(before).to(scores.scalar_type()) / static_cast<double>(tokens - before);
  switch (scored_position_) {
    case Scored::first:
      return {first, {}};
    case Scored::mean_of_patches:
      return {mean_of_patches, {}};
    case Scored::mean_of_tokens:
      return {at::full_like(first, 1.0 / static_cast<double>(tokens)), {}};
    case Scored::first_and_patches:
      return {first, mean_of_patches};
    case Scored::last:
      break;
  }
  COLOSSAL_CHECK(false, "the scores of the last token of an image");
}

at::Tensor Transformer::pixels(const at::Tensor& x, const nn::StepContext& context) {
  return head_->scores(final_states(x, context), context);
}

at::Tensor Transformer::values(const at::Tensor& x, const nn::StepContext& context) {
  return value_head_->scores(final_states(x, context), context).squeeze(-1);
}

at::Tensor Transformer::logits(const at::Tensor& x, const nn::StepContext& context,
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
