#include "tests/support/lying_builder.h"

namespace colossal::test {
namespace {

at::Tensor lie(const at::Tensor& x) {
  return x.flip({0}).permute({2, 1, 0}).contiguous();
}
at::Tensor truth(const at::Tensor& x) {
  return x.permute({2, 1, 0}).flip({0}).contiguous();
}

// Any layer from activation to activation.
template <typename Layer>
class Lying : public Layer {
 public:
  explicit Lying(std::unique_ptr<Layer> layer) : layer_(std::move(layer)) {}
  at::Tensor forward(const at::Tensor& x, const nn::StepContext& context) override {
    return lie(layer_->forward(truth(x), context));
  }

 private:
  std::unique_ptr<Layer> layer_;
};

class LyingEmbedding : public nn::Embedding {
 public:
  explicit LyingEmbedding(std::unique_ptr<nn::Embedding> layer) : layer_(std::move(layer)) {}
  at::Tensor forward(const at::Tensor& tokens, const nn::StepContext& context) override {
    return lie(layer_->forward(tokens, context));
  }

 private:
  std::unique_ptr<nn::Embedding> layer_;
};

class LyingPositions : public nn::PositionEmbedding {
 public:
  explicit LyingPositions(std::unique_ptr<nn::PositionEmbedding> layer)
      : layer_(std::move(layer)) {}
  at::Tensor forward(const nn::StepContext& context) override {
    return lie(layer_->forward(context));
  }

 private:
  std::unique_ptr<nn::PositionEmbedding> layer_;
};

class LyingAttention : public nn::Attention {
 public:
  explicit LyingAttention(std::unique_ptr<nn::Attention> layer) : layer_(std::move(layer)) {}
  at::Tensor forward(const at::Tensor& qkv, const at::Tensor& relative_bias,
                     const nn::StepContext& context) override {
    return lie(layer_->forward(truth(qkv), relative_bias, context));
  }

 private:
  std::unique_ptr<nn::Attention> layer_;
};

class LyingCrossAttention : public nn::CrossAttention {
 public:
  explicit LyingCrossAttention(std::unique_ptr<nn::CrossAttention> layer)
      : layer_(std::move(layer)) {}
  at::Tensor forward(const at::Tensor& query, const at::Tensor& key_value,
                     const nn::StepContext& context) override {
    return lie(layer_->forward(truth(query), truth(key_value), context));
  }
  at::Tensor forward_stored(const at::Tensor& query, const nn::StepContext& context) override {
    return lie(layer_->forward_stored(truth(query), context));
  }

 private:
  std::unique_ptr<nn::CrossAttention> layer_;
};

class LyingHead : public nn::VocabularyHead {
 public:
  explicit LyingHead(std::unique_ptr<nn::VocabularyHead> layer) : layer_(std::move(layer)) {}
  at::Tensor loss_sum(const at::Tensor& x, const at::Tensor& labels,
                      const nn::StepContext& context) override {
    return layer_->loss_sum(truth(x), labels, context);
  }
  at::Tensor log_probabilities(const at::Tensor& x, const at::Tensor& labels, double temperature,
                               const nn::StepContext& context) override {
    return layer_->log_probabilities(truth(x), labels, temperature, context);
  }
  at::Tensor logits_here(const at::Tensor& x, double temperature,
                         const nn::StepContext& context) override {
    return layer_->logits_here(truth(x), temperature, context);
  }
  at::Tensor divergences(const at::Tensor& x, const at::Tensor& teacher, double beta,
                         double temperature, const nn::StepContext& context) override {
    return layer_->divergences(truth(x), teacher, beta, temperature, context);
  }
  at::Tensor scores(const at::Tensor& x, const nn::StepContext& context) override {
    return layer_->scores(truth(x), context);
  }
  at::Tensor logits(const at::Tensor& x, const nn::StepContext& context,
                    const at::Tensor& wanted) override {
    return layer_->logits(truth(x), context, wanted);
  }
  at::Tensor gathered_states(const at::Tensor& x, const nn::StepContext& context,
                             const at::Tensor& wanted) override {
    return layer_->gathered_states(truth(x), context, wanted);
  }

 private:
  std::unique_ptr<nn::VocabularyHead> layer_;
};

}  // namespace

std::unique_ptr<nn::Embedding> LyingBuilder::embedding(const std::string& name,
                                                       const nn::EmbeddingOptions& options) {
  return std::make_unique<LyingEmbedding>(DenseBuilder::embedding(name, options));
}

std::unique_ptr<nn::PositionEmbedding> LyingBuilder::position_embedding(
    const std::string& name, const nn::EmbeddingOptions& options) {
  return std::make_unique<LyingPositions>(DenseBuilder::position_embedding(name, options));
}

std::unique_ptr<nn::Linear> LyingBuilder::linear(const std::string& name,
                                                 const nn::LinearOptions& options) {
  nn::LinearOptions plain = options;
  plain.input_dropout = 0;
  return with_input_dropout(name, options, {},
                            std::make_unique<Lying<nn::Linear>>(DenseBuilder::linear(name, plain)));
}

std::unique_ptr<nn::Linear> LyingBuilder::fused_linear(const nn::FusedLinearOptions& options) {
  return std::make_unique<Lying<nn::Linear>>(DenseBuilder::fused_linear(options));
}

std::unique_ptr<nn::GatedActivation> LyingBuilder::gated_activation(const std::string& name,
                                                                    ops::Activation activation) {
  return std::make_unique<Lying<nn::GatedActivation>>(
      DenseBuilder::gated_activation(name, activation));
}

std::unique_ptr<nn::Norm> LyingBuilder::rms_norm(const std::string& name,
                                                 const nn::NormOptions& options) {
  return std::make_unique<Lying<nn::Norm>>(DenseBuilder::rms_norm(name, options));
}

std::unique_ptr<nn::Norm> LyingBuilder::layer_norm(const std::string& name,
                                                   const nn::NormOptions& options) {
  return std::make_unique<Lying<nn::Norm>>(DenseBuilder::layer_norm(name, options));
}

std::unique_ptr<nn::Dropout> LyingBuilder::dropout(const std::string& name, double probability) {
  return std::make_unique<Lying<nn::Dropout>>(DenseBuilder::dropout(name, probability));
}

std::unique_ptr<nn::Attention> LyingBuilder::attention(const std::string& name,
                                                       const nn::AttentionOptions& options) {
  return std::make_unique<LyingAttention>(DenseBuilder::attention(name, options));
}

std::unique_ptr<nn::CrossAttention> LyingBuilder::cross_attention(
    const std::string& name, const nn::AttentionOptions& options) {
  return std::make_unique<LyingCrossAttention>(DenseBuilder::cross_attention(name, options));
}

std::unique_ptr<nn::VocabularyHead> LyingBuilder::vocabulary_head(
    const std::string& name, const nn::VocabularyHeadOptions& options) {
  return std::make_unique<LyingHead>(DenseBuilder::vocabulary_head(name, options));
}

std::unique_ptr<nn::VocabularyHead> LyingBuilder::tied_vocabulary_head(
    const std::string& name, const std::string& embedding_name,
    const nn::VocabularyHeadOptions& options) {
  return std::make_unique<LyingHead>(
      DenseBuilder::tied_vocabulary_head(name, embedding_name, options));
}

}  // namespace colossal::test
