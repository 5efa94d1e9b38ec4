// DualEncoder: a model of two towers, one for images and one for texts, that gives both vectors in
// one space, such as CLIP.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "colossal/models/attention_pooling.h"
#include "colossal/models/model.h"
#include "colossal/models/text_tower.h"
#include "colossal/models/transformer_config.h"
#include "colossal/nn/blocks.h"
#include "colossal/nn/builder.h"
#include "colossal/nn/learned_scalar.h"
#include "colossal/nn/patch_embedding.h"
#include "colossal/nn/pooled_projection.h"

namespace colossal::models {

// The blocks of the tower for images precede those of the tower for texts, as those of an encoder
// precede those of a decoder. The names of the other layers of the tower for texts begin with
// "text_". A batch has the fields of images (data/image_batch.h) and of texts (data/text_batch.h).
// StepContext::grids and BlockState::streams are those of both towers; the stream of the images
// becomes their vectors before the first block of the other tower. A batch may lack the images or
// the texts: their grid is then empty, and there is only the stream of the other tower. model.h
// documents the overridden functions.
class DualEncoder : public Model, private EmbeddingHead {
 public:
  // Makes the layers that the configurations describe. `build` makes each layer and collects its
  // parameters.
  DualEncoder(nn::Builder& build, const TransformerConfig& images, const TextTower& texts);

  nn::StepContext context_of(const data::Batch& batch, const nn::StepContext& base,
                             const nn::SequencePart& part) const override;
  nn::BlockState inputs(const data::Batch& batch, const nn::StepContext& context) override;
  int64_t num_blocks() const override { return blocks_.size(); }
  nn::BlockState run_blocks(Range blocks, const nn::BlockState& state,
                            const nn::StepContext& context) override;
  int64_t num_streams() const override { return 2; }

 private:
  // Indices of the towers (nn::ModelPart::tower), of their streams and grids.
  static constexpr int kImages = 0, kTexts = 1;

  Parts parts() override { return {.embedding_head = this}; }
  Embeddings embeddings(const nn::BlockState& state, const at::Tensor& pooling,
                        const nn::StepContext& context) override;
  // Makes the layers that turn the stream of images into their vectors.
  void make_image_head(nn::Builder& build, const TransformerConfig& images, int64_t features);
  at::Tensor vectors_of_images(const at::Tensor& x, const nn::StepContext& context) const;

  int64_t image_tokens_;
  int64_t image_layers_;
  std::optional<nn::PatchEmbedding> patch_embedding_;
  std::unique_ptr<nn::Norm> image_embedding_norm_;  // null: there is none
  std::unique_ptr<nn::Embedding> token_embedding_;
  std::unique_ptr<nn::PositionEmbedding> positions_;
  nn::Blocks blocks_;
  std::unique_ptr<nn::Norm> image_norm_, text_norm_;
  std::optional<nn::PooledProjection> image_projection_;  // nullopt: there is image_pooling_
  std::unique_ptr<AttentionPooling> image_pooling_;
  std::optional<nn::PooledProjection> text_projection_;
  std::optional<nn::LearnedScalar> logit_scale_, logit_bias_;  // logit_bias_: nullopt: none
};

}  // namespace colossal::models
