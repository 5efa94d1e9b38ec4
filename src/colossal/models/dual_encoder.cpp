#include "colossal/models/dual_encoder.h"

#include <ATen/TensorOperators.h>

#include <cmath>
#include <memory>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/data/image_batch.h"
#include "colossal/data/text_batch.h"
#include "colossal/models/token_grids.h"
#include "colossal/models/transformer_block.h"

namespace colossal::models {

DualEncoder::DualEncoder(nn::Builder& build, const TransformerConfig& images,
                         const TextTower& texts)
    : image_tokens_(images.patches->num_tokens()), image_layers_(images.layers) {
  using Kind = nn::ModelPart::Kind;
  const TransformerConfig& text = texts.transformer;
  const nn::Initializer normal = nn::Initializer::normal(text.initializer_range);
  build.begin_part({.kind = Kind::embedding, .tower = kImages});
  patch_embedding_.emplace(build, "patch_embedding", *images.patches);
  if (images.embedding_norm) image_embedding_norm_ = make_norm(build, "embedding_norm", images);
  build.begin_part({.kind = Kind::embedding, .tower = kTexts});
  token_embedding_ =
      build.embedding("text_token_embedding", {text.vocabulary, text.hidden, normal});
  positions_ = build.position_embedding(
      "text_position_embedding",
      {.vocabulary = text.positions, .features = text.hidden, .initializer = normal});
  blocks_ = nn::Blocks(
      build, image_layers_ + text.layers,
      [&](int64_t index) {
        if (index < image_layers_) return make_transformer_block(build, images, index);
        if (index == image_layers_) {
          build.begin_part({.kind = Kind::block, .block = index, .tower = kImages});
          make_image_head(build, images, texts.features);
          build.begin_part({.kind = Kind::block, .block = index, .tower = kTexts});
        }
        return make_transformer_block(build, text, index - image_layers_, image_layers_);
      },
      [&](int64_t index) { return index < image_layers_ ? kImages : kTexts; });
  build.begin_part({.kind = Kind::head, .tower = kTexts});
  text_norm_ = make_norm(build, "text_final_norm", text);
  text_projection_.emplace(
      build, "text_projection",
      nn::PooledProjectionOptions{
          .in_features = text.hidden,
          .out_features = texts.features,
          .bias = texts.projection_bias,
          .initializer = nn::Initializer::normal(1 / std::sqrt(static_cast<double>(text.hidden)))});
  logit_scale_.emplace(build, "logit_scale", texts.scalar_shape(), texts.logit_scale);
  if (texts.logit_bias)
    logit_bias_.emplace(build, "logit_bias", texts.scalar_shape(), *texts.logit_bias);
}

void DualEncoder::make_image_head(nn::Builder& build, const TransformerConfig& images,
                                  int64_t features) {
  image_norm_ = make_norm(build, "final_norm", images);
  if (images.attention_pooling) {
    image_pooling_ = std::make_unique<AttentionPooling>(build, images);
    return;
  }
  image_projection_.emplace(
      build, "projection",
      nn::PooledProjectionOptions{.in_features = images.hidden,
                                  .out_features = features,
                                  .initializer = nn::Initializer::normal(
                                      1 / std::sqrt(static_cast<double>(images.hidden)))});
}

nn::StepContext DualEncoder::context_of(const data::Batch& batch, const nn::StepContext& base,
                                        const nn::SequencePart& part) const {
  std::vector<nn::TokenGrid> grids(2);
  if (batch.has(data::kPixels)) grids[kImages] = image_grid(batch, part, image_tokens_);
  if (batch.has(data::kTokens)) grids[kTexts] = text_grid(batch, part);
  return context_with(base, batch, std::move(grids));
}

nn::BlockState DualEncoder::inputs(const data::Batch& batch, const nn::StepContext& context) {
  nn::BlockState state;
  if (batch.has(data::kPixels)) {
    const nn::StepContext of_images = context.of_stack(kImages);
    const at::Tensor x = patch_embedding_->forward(batch.at(data::kPixels), {}, of_images);
    state.streams.push_back(image_embedding_norm_ ? image_embedding_norm_->forward(x, of_images)
                                                  : x);
  }
  if (batch.has(data::kTokens)) {
    const at::Tensor x = token_embedding_->forward(batch.at(data::kTokens), context);
    state.streams.push_back(x + positions_->forward(context));
  }
  return state;
}

at::Tensor DualEncoder::vectors_of_images(const at::Tensor& x,
                                          const nn::StepContext& context) const {
  if (image_pooling_) return image_pooling_->forward(image_norm_->forward(x, context), context);
  const at::Tensor first =
      context.tokens().positions.eq(0).unsqueeze(0).expand({context.tokens().batch, -1});
  return image_projection_->forward(image_norm_->forward(x, context), first, context);
}

nn::BlockState DualEncoder::run_blocks(Range blocks, const nn::BlockState& state,
                                       const nn::StepContext& context) {
  const Range seen = intersect(blocks, {0, image_layers_});
  const Range read = intersect(blocks, {image_layers_, num_blocks()});
  nn::BlockState after = state;
  if (!context.grids[kImages].is_empty()) {
    const nn::StepContext of_images = context.of_stack(kImages);
    at::Tensor& image = after.streams.front();
    image = blocks_.forward(seen, {{image}}, of_images).output();
    if (!read.empty() && read.begin == image_layers_) image = vectors_of_images(image, of_images);
  }
  if (!context.grids[kTexts].is_empty()) {
    at::Tensor& text = after.streams.back();
    text = blocks_.forward(read, {{text}}, context).output();
  }
  return after;
}

Embeddings DualEncoder::embeddings(const nn::BlockState& state, const at::Tensor& pooling,
                                   const nn::StepContext& context) {
  Embeddings found{.logit_scale = logit_scale_->forward(),
                   .logit_bias = logit_bias_ ? logit_bias_->forward() : at::Tensor()};
  if (!context.grids[kImages].is_empty()) found.images = state.streams.front();
  if (!context.grids[kTexts].is_empty()) {
    const at::Tensor text = text_norm_->forward(state.streams.back(), context);
    found.texts = text_projection_->forward(text, pooling, context);
  }
  return found;
}

}  // namespace colossal::models
