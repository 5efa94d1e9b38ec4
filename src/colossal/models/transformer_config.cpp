#include "colossal/models/transformer_config.h"

#include <algorithm>

namespace colossal::models {
namespace {

// Numbers of weights and biases of the linear layers in a block.
struct ProductSizes {
  int64_t weights = 0, biases = 0;
  int64_t used = 0;  // weights that one token is multiplied by

  void add(int64_t in_features, int64_t out_features, bool bias) {
    weights += in_features * out_features;
    if (bias) biases += out_features;
  }
};

ProductSizes qkv_products(const TransformerConfig& config) {
  ProductSizes sizes;
  sizes.add(config.hidden, config.query_features() + 2 * config.key_features(), config.qkv_bias);
  return sizes;
}

// The norms of latents are counted as biases.
ProductSizes latent_products(const TransformerConfig& config) {
  const int64_t rotary = config.attention.front().rotary.channels;
  const int64_t plain = config.head_size - rotary;
  ProductSizes sizes;
  if (config.query_rank > 0) {
    sizes.add(config.hidden, config.query_rank, config.qkv_bias);
    sizes.add(config.query_rank, config.query_features(), false);
  } else {
    sizes.add(config.hidden, config.query_features(), false);
  }
  sizes.add(config.hidden, config.key_value_rank + rotary, config.qkv_bias);
  sizes.add(config.key_value_rank, config.heads * (plain + config.size_of_value()), false);
  sizes.biases += config.query_rank + config.key_value_rank;
  return sizes;
}

void add_mlp(const TransformerConfig& config, int64_t inner, ProductSizes& sizes) {
  const int64_t up = (config.gated ? 2 : 1) * inner, before = sizes.weights;
  sizes.add(config.hidden, up, config.mlp_up_bias);
  sizes.add(inner, config.hidden, config.mlp_down_bias);
  sizes.used += sizes.weights - before;
}

ProductSizes products_of_layer(const TransformerConfig& config, int64_t layer) {
  ProductSizes sizes = config.has_latents() ? latent_products(config) : qkv_products(config);
  sizes.add(config.attended_features(), config.hidden, config.attention_output_bias);
  if (config.has_cross_attention(layer)) {
    sizes.add(config.hidden, config.query_features() + 2 * config.key_features(), config.qkv_bias);
    sizes.add(config.attended_features(), config.hidden, config.attention_output_bias);
  }
  if (config.attention_sinks) sizes.biases += config.heads;
  sizes.used = sizes.weights;
  if (!config.has_experts(layer)) {
    add_mlp(config, config.inner, sizes);
    return sizes;
  }
  const int64_t of_expert = 3 * config.hidden * config.expert_inner;
  sizes.add(config.hidden, config.router.experts, config.router.bias);
  if (config.router.correction_bias) sizes.biases += config.router.experts;
  sizes.weights += config.router.experts * of_expert;
  if (config.clamped_gate) {
    sizes.biases += config.router.experts * (2 * config.expert_inner + config.hidden);
  }
  sizes.used += config.hidden * config.router.experts + config.router.chosen * of_expert;
  if (config.shared_inner > 0) add_mlp(config, config.shared_inner, sizes);
  if (config.shared_gate) {
    sizes.add(config.hidden, 1, false);
    sizes.used += config.hidden;
  }
  return sizes;
}

int64_t norm_parameters(const TransformerConfig& config) {
  if (!config.norm_weight) return 0;
  const bool bias = config.norm == TransformerConfig::Norm::layer && config.norm_bias;
  return config.hidden * (bias ? 2 : 1);
}

int64_t norms_of_layer(const TransformerConfig& config) {
  if (config.parallel_branches) return config.shared_norm ? 1 : 2;
  return config.norm_place == TransformerConfig::NormPlace::around ? 4 : 2;
}

int64_t patch_parameters(const nn::PatchEmbeddingOptions& patches) {
  const int64_t pixels = patches.channels * patches.patch * patches.patch;
  const bool mask_token = patches.mask_token != nn::PatchEmbeddingOptions::MaskToken::none;
  const int64_t rows = patches.num_prefix_tokens() + patches.num_positions() + (mask_token ? 1 : 0);
  return patches.features * (pixels + (patches.bias ? 1 : 0) + rows);
}

int64_t head_transform_parameters(const TransformerConfig& config) {
  if (!config.head_transform) return 0;
  return config.hidden * (config.hidden + (config.head_transform->bias ? 1 : 0)) +
         (config.head_transform->norm ? norm_parameters(config) : 0);
}

int64_t query_key_norm_parameters(const TransformerConfig& config) {
  const nn::QueryKeyNormOptions& norm = config.query_key_norm;
  if (norm.kind == nn::QueryKeyNormOptions::Kind::none) return 0;
  const bool of_all = norm.over == nn::QueryKeyNormOptions::Over::all_heads || norm.own_weights;
  const int64_t weights =
      of_all ? config.query_features() + config.key_features() : 2 * config.head_size;
  return weights * (norm.bias ? 2 : 1);
}

}  // namespace

double ModelFacts::flops_per_token(int64_t sequence) const {
  int64_t seen = 0;  // maximum number of keys that a query sees, summed over the layers
  for (const int64_t window : windows) seen += window > 0 ? std::min(window, sequence) : sequence;
  return 6.0 * static_cast<double>(product_weights) +
         6.0 * static_cast<double>(heads * (head_size + value_size) * seen) +
         flops_of_text / static_cast<double>(sequence);
}

ModelFacts facts(const TransformerConfig& config) {
  const int64_t table = config.vocabulary * config.hidden, norm = norm_parameters(config);
  const int64_t of_norms = norms_of_layer(config) * norm + query_key_norm_parameters(config) +
                           (config.feature_scale ? 2 * config.hidden : 0);
  ModelFacts facts;
  facts.family = config.family;
  facts.layers = config.layers;
  facts.hidden = config.hidden;
  facts.heads = config.heads;
  facts.kv_heads = config.kv_heads;
  facts.head_size = config.head_size;
  facts.value_size = config.size_of_value();
  facts.key_value_cache_heads = config.key_value_cache_heads(config.has_latents());
  facts.key_value_cache_features = config.key_value_cache_features(config.has_latents());
  facts.vocabulary = config.vocabulary;
  facts.positions = config.positions;
  facts.experts = config.router.experts;
  facts.expert_inner = config.expert_inner;
  const int64_t own_table = config.tied_head ? 0 : table;
  facts.causal = config.causal;
  facts.encoder_layers = config.encoder_layers;
  facts.decoder_start_token = config.decoder_start_token;
  if (config.encoder_layers > 0) facts.decoder_prompt = {config.decoder_start_token};
  facts.scores = config.scores;
  const bool two_heads =
      config.scored_position == TransformerConfig::ScoredPosition::first_and_patches;
  const int64_t score_weights = config.scores * config.hidden * (two_heads ? 2 : 1);
  const int64_t scores = score_weights + (config.score_bias ? config.scores : 0);
  const int64_t head =
      config.scores > 0 ? scores : own_table + (config.head_bias ? config.vocabulary : 0);
  facts.product_weights = config.scores > 0 ? score_weights : table;
  if (config.head_transform) facts.product_weights += config.hidden * config.hidden;
  if (config.patches) {
    const int64_t pixels = config.patches->channels * config.patches->patch * config.patches->patch;
    facts.product_weights += pixels * config.hidden;
    facts.parameters += patch_parameters(*config.patches);
    if (config.reconstructs) {
      facts.product_weights += pixels * config.hidden;
      facts.parameters += pixels * (config.hidden + 1);
    }
  }
  const int64_t stacks = config.encoder_layers > 0 ? 2 : 1;
  facts.parameters +=
      stacks * ((config.embedding_norm ? norm : 0) + (config.final_norm ? norm : 0) +
                config.relative_buckets * config.heads) +
      table + config.token_types * config.hidden + head_transform_parameters(config) + head +
      (config.value_head ? config.hidden : 0) - (config.first_attention_norm ? 0 : norm);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const ProductSizes products = products_of_layer(config, layer);
    facts.product_weights += products.used;
    facts.parameters += products.weights + products.biases + of_norms;
    if (config.has_cross_attention(layer)) facts.parameters += norm;
  }
  if (config.is_draft_head) {
    facts.product_weights += 2 * config.hidden * config.hidden;
    facts.parameters += 2 * config.hidden * config.hidden;
  }
  if (config.learned_positions) {
    facts.parameters += stacks * (config.positions + config.position_offset) * config.hidden;
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const int64_t window = config.attention_of(layer).window;
    const bool causal = config.causal && !config.is_of_encoder(layer);
    facts.windows.push_back(causal || window == 0 ? window : 2 * window - 1);
    const ops::RotaryOptions& rotary = config.attention_of(layer).rotary;
    if (rotary.depends_on_length()) facts.fixed_rotary_length = rotary.original_positions;
  }
  return facts;
}

}  // namespace colossal::models
