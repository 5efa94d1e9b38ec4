#include "colossal/nn/dense_builder.h"

#include "colossal/base/error.h"
#include "colossal/nn/dense_layers.h"

namespace colossal::nn {

std::unique_ptr<Attention> make_dense_attention(std::string stream, const AttentionOptions& options,
                                                int64_t head_begin) {
  return std::make_unique<DenseAttention>(std::move(stream), options, head_begin);
}

std::string DenseBuilder::full_name(const std::string& name) const {
  std::string full;
  for (const std::string& part : path_) full += part + ".";
  return full + name;
}

ParameterHandle DenseBuilder::parameter(const std::string& layer, const std::string& name,
                                        std::vector<int64_t> shape, Initializer initializer,
                                        Placement placement) {
  auto made = std::make_shared<Parameter>();
  made->name = full_name(layer) + "." + name;
  made->shape = std::move(shape);
  made->initializer = initializer;
  made->placement = std::move(placement);
  for (const ParameterHandle& other : parameters_) {
    COLOSSAL_CHECK(other->name != made->name, "parameter {} registered twice", made->name);
  }
  parameters_.emplace_back(made);
  return parameters_.back();
}

std::unique_ptr<Embedding> DenseBuilder::embedding(const std::string& name,
                                                   const EmbeddingOptions& options) {
  return std::make_unique<DenseEmbedding>(parameter(
      name, "weight", {options.vocabulary, options.features}, options.initializer, whole()));
}

std::unique_ptr<PositionEmbedding> DenseBuilder::position_embedding(
    const std::string& name, const EmbeddingOptions& options) {
  return std::make_unique<DensePositionEmbedding>(parameter(
      name, "weight", {options.vocabulary, options.features}, options.initializer, whole()));
}

std::pair<ParameterHandle, ParameterHandle> DenseBuilder::linear_parameters(
    const std::string& name, const LinearOptions& options, Placement of_weight, Placement of_bias) {
  const bool out_in = options.order == WeightOrder::out_in;
  std::vector<int64_t> shape{out_in ? options.out_features : options.in_features,
                             out_in ? options.in_features : options.out_features};
  auto weight =
      parameter(name, "weight", std::move(shape), options.initializer, std::move(of_weight));
  auto bias = options.bias ? parameter(name, "bias", {options.out_features}, Initializer::zeros(),
                                       std::move(of_bias))
                           : ParameterHandle();
  return {std::move(weight), std::move(bias)};
}

std::unique_ptr<Linear> DenseBuilder::linear(const std::string& name,
                                             const LinearOptions& options) {
  auto [weight, bias] = linear_parameters(name, options, whole(), whole());
  return std::make_unique<DenseLinear>(weight, bias, options.order);
}

std::unique_ptr<Norm> DenseBuilder::layer_norm(const std::string& name,
                                               const NormOptions& options) {
  auto weight = parameter(name, "weight", {options.features}, Initializer::ones(), whole());
  auto bias = parameter(name, "bias", {options.features}, Initializer::zeros(), whole());
  return std::make_unique<DenseLayerNorm>(weight, bias, options.epsilon);
}

std::unique_ptr<Dropout> DenseBuilder::dropout(const std::string& name, double probability) {
  return std::make_unique<DenseDropout>(full_name(name), probability);
}

std::unique_ptr<Attention> DenseBuilder::attention(const std::string& name,
                                                   const AttentionOptions& options) {
  return attention_of_heads(name, options, 0);
}

std::unique_ptr<Attention> DenseBuilder::attention_of_heads(const std::string& name,
                                                            const AttentionOptions& options,
                                                            int64_t head_begin) const {
  return make_attention_(full_name(name), options, head_begin);
}

std::unique_ptr<VocabularyHead> DenseBuilder::vocabulary_head(const std::string& name,
                                                              const EmbeddingOptions& options) {
  return make_head(parameter(name, "weight", {options.vocabulary, options.features},
                             options.initializer, whole()));
}

std::unique_ptr<VocabularyHead> DenseBuilder::make_head(ParameterHandle weight) {
  return std::make_unique<DenseVocabularyHead>(std::move(weight));
}

std::unique_ptr<VocabularyHead> DenseBuilder::tied_vocabulary_head(
    const std::string& embedding_name, const EmbeddingOptions&) {
  const std::string wanted = full_name(embedding_name) + ".weight";
  for (const ParameterHandle& handle : parameters_) {
    if (handle->name == wanted) return make_head(handle);
  }
  COLOSSAL_CHECK(false, "no embedding {} to tie a head to", wanted);
}

}  // namespace colossal::nn
