// A builder whose activations lie about their shape: between layers they are [features, sequence,
// batch] with the batch reversed, so a model that reads an activation's sizes, or does more than
// elementwise work on it, computes something else. The layers inside are the dense ones.
#pragma once

#include "colossal/nn/dense_builder.h"

namespace colossal::test {

class LyingBuilder : public nn::DenseBuilder {
 public:
  std::unique_ptr<nn::Embedding> embedding(const std::string& name,
                                           const nn::EmbeddingOptions& options) override;
  std::unique_ptr<nn::PositionEmbedding> position_embedding(
      const std::string& name, const nn::EmbeddingOptions& options) override;
  std::unique_ptr<nn::Linear> linear(const std::string& name,
                                     const nn::LinearOptions& options) override;
  std::unique_ptr<nn::Linear> fused_linear(const nn::FusedLinearOptions& options) override;
  std::unique_ptr<nn::GatedActivation> gated_activation(const std::string& name,
                                                        ops::Activation activation) override;
  std::unique_ptr<nn::Norm> rms_norm(const std::string& name,
                                     const nn::NormOptions& options) override;
  std::unique_ptr<nn::Norm> layer_norm(const std::string& name,
                                       const nn::NormOptions& options) override;
  std::unique_ptr<nn::CrossAttention> cross_attention(const std::string& name,
                                                      const nn::AttentionOptions& options) override;
  std::unique_ptr<nn::Dropout> dropout(const std::string& name, double probability) override;
  std::unique_ptr<nn::Attention> attention(const std::string& name,
                                           const nn::AttentionOptions& options) override;
  std::unique_ptr<nn::VocabularyHead> vocabulary_head(
      const std::string& name, const nn::VocabularyHeadOptions& options) override;
  std::unique_ptr<nn::VocabularyHead> tied_vocabulary_head(
      const std::string& name, const std::string& embedding_name,
      const nn::VocabularyHeadOptions& options) override;
};

}  // namespace colossal::test
