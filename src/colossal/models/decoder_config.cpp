#include "colossal/models/decoder_config.h"

namespace colossal::models {
namespace {

// Weights and biases of a layer's products.
struct ProductSizes {
  int64_t weights = 0, biases = 0;
};

ProductSizes products_of_layer(const DecoderConfig& config) {
  const int64_t hidden = config.hidden, queries = config.query_features();
  const int64_t qkv = queries + 2 * config.key_features();
  const int64_t up = (config.gated ? 2 : 1) * config.inner;
  ProductSizes sizes{hidden * (qkv + queries + up + config.inner)};
  if (config.qkv_bias) sizes.biases += qkv;
  if (config.attention_output_bias) sizes.biases += hidden;
  if (config.mlp_bias) sizes.biases += up + hidden;
  return sizes;
}

int64_t norm_parameters(const DecoderConfig& config) {
  return config.hidden * (config.norm == DecoderConfig::Norm::layer ? 2 : 1);
}

}  // namespace

ModelFacts facts(const DecoderConfig& config) {
  const ProductSizes of_layer = products_of_layer(config);
  const int64_t table = config.vocabulary * config.hidden;
  ModelFacts facts;
  facts.family = config.family;
  facts.layers = config.layers;
  facts.hidden = config.hidden;
  facts.heads = config.heads;
  facts.kv_heads = config.kv_heads;
  facts.head_size = config.head_size;
  facts.vocabulary = config.vocabulary;
  facts.positions = config.positions;
  facts.product_weights = config.layers * of_layer.weights + table;
  facts.parameters =
      config.layers * (of_layer.weights + of_layer.biases + 2 * norm_parameters(config)) +
      norm_parameters(config) + table * (config.tied_head ? 1 : 2) +
      (config.learned_positions ? config.positions * config.hidden : 0);
  return facts;
}

}  // namespace colossal::models
