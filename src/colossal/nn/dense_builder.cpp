#include "colossal/nn/dense_builder.h"

#include "colossal/base/error.h"
#include "colossal/nn/dense_layers.h"

namespace colossal::nn {

std::string DenseBuilder::full_name(const std::string& name) const {
  std::string full;
  for (const std::string& part : path_) full += part + ".";
  return full + name;
}

ParameterHandle DenseBuilder::parameter(const std::string& layer, const std::string& name,
                                        std::vector<int64_t> shape, Initializer initializer) {
  auto made = std::make_shared<Parameter>();
  made->name = full_name(layer) + "." + name;
  made->shape = std::move(shape);
  made->initializer = initializer;
  for (const ParameterHandle& other : parameters_) {
    COLOSSAL_CHECK(other->name != made->name, "parameter {} registered twice", made->name);
  }
  parameters_.emplace_back(made);
  return parameters_.back();
}

std::unique_ptr<Embedding> DenseBuilder::embedding(const std::string& name,
                                                   const EmbeddingOptions& options) {
  return std::make_unique<DenseEmbedding>(
      parameter(name, "weight", {options.vocabulary, options.features}, options.initializer));
}

std::unique_ptr<PositionEmbedding> DenseBuilder::position_embedding(
    const std::string& name, const EmbeddingOptions& options) {
  return std::make_unique<DensePositionEmbedding>(
      parameter(name, "weight", {options.vocabulary, options.features}, options.initializer));
}

std::unique_ptr<Linear> DenseBuilder::linear(const std::string& name,
                                             const LinearOptions& options) {
  const bool out_in = options.order == WeightOrder::out_in;
  std::vector<int64_t> shape{out_in ? options.out_features : options.in_features,
                             out_in ? options.in_features : options.out_features};
  auto weight = parameter(name, "weight", shape, options.initializer);
  auto bias = options.bias ? parameter(name, "bias", {options.out_features}, Initializer::zeros())
                           : ParameterHandle();
  return std::make_unique<DenseLinear>(weight, bias, options.order);
}

std::unique_ptr<Norm> DenseBuilder::layer_norm(const std::string& name,
                                               const NormOptions& options) {
  auto weight = parameter(name, "weight", {options.features}, Initializer::ones());
  auto bias = parameter(name, "bias", {options.features}, Initializer::zeros());
  return std::make_unique<DenseLayerNorm>(weight, bias, options.epsilon);
}

std::unique_ptr<Dropout> DenseBuilder::dropout(const std::string& name, double probability) {
  return std::make_unique<DenseDropout>(full_name(name), probability);
}

std::unique_ptr<Attention> DenseBuilder::attention(const std::string& name,
                                                   const AttentionOptions& options) {
  return std::make_unique<DenseAttention>(full_name(name), options);
}

std::unique_ptr<VocabularyHead> DenseBuilder::vocabulary_head(const std::string& name,
                                                              const EmbeddingOptions& options) {
  return std::make_unique<DenseVocabularyHead>(
      parameter(name, "weight", {options.vocabulary, options.features}, options.initializer));
}

std::unique_ptr<VocabularyHead> DenseBuilder::tied_vocabulary_head(
    const std::string& embedding_name, const EmbeddingOptions&) {
  const std::string wanted = full_name(embedding_name) + ".weight";
  for (const ParameterHandle& handle : parameters_) {
    if (handle->name == wanted) return std::make_unique<DenseVocabularyHead>(handle);
  }
  COLOSSAL_CHECK(false, "no embedding {} to tie a head to", wanted);
}

}  // namespace colossal::nn
