#include "colossal/models/scaled_inputs.h"

namespace colossal::models {
namespace {

std::vector<std::string> attention_products(const TransformerConfig& config) {
  return config.stored_in_out ? std::vector<std::string>{"qkv"}
                              : std::vector<std::string>{"query", "key", "value"};
}

// What attention weighs are values, each head's for itself.
ScaledInputs values(const TransformerConfig& config) {
  if (!config.stored_in_out) return {.products = {"attention_output"}, .producer = "value"};
  const int64_t begin = config.query_features() + config.key_features();
  return {.products = {"attention_output"},
          .producer = "qkv",
          .producer_outputs = {begin, begin + config.key_features()}};
}

std::vector<std::string> mlp_products(const TransformerConfig& config) {
  return config.gated ? std::vector<std::string>{"mlp_gate", "mlp_up"}
                      : std::vector<std::string>{"mlp_up"};
}

// Adds norms whose outputs only linear layers read. Layers with experts also have a router that
// reads the norm; scaling would change its choices.
void add_norms(const TransformerConfig& config, int64_t layer, std::vector<ScaledInputs>& found) {
  if (!config.norm_weight || !config.has_norm_before() || config.residual_of_norm) return;
  const bool mlp = !config.has_experts(layer), attention = !config.has_latents();
  if (config.parallel_branches && config.shared_norm) {
    if (!mlp || !attention) return;
    std::vector<std::string> all = attention_products(config);
    for (const std::string& product : mlp_products(config)) all.push_back(product);
    found.push_back({.products = all, .producer = "attention_norm", .producer_is_norm = true});
    return;
  }
  if (attention)
    found.push_back({.products = attention_products(config),
                     .producer = "attention_norm",
                     .producer_is_norm = true});
  if (!mlp) return;
  found.push_back(
      {.products = mlp_products(config), .producer = "mlp_norm", .producer_is_norm = true});
}

}  // namespace

std::vector<ScaledInputs> scaled_inputs(const TransformerConfig& config, int64_t layer) {
  std::vector<ScaledInputs> found;
  add_norms(config, layer, found);
  // Attention adds up values per channel. If each query head has its own value head, a channel's
  // scale can move from the output layer to the values.
  if (!config.has_latents() && config.heads == config.kv_heads) found.push_back(values(config));
  if (config.has_experts(layer)) {
    if (!config.clamped_gate) {
      found.push_back({.products = {"experts.down"}, .producer = "experts.up", .of_experts = true});
    }
    return found;
  }
  if (config.gated) found.push_back({.products = {"mlp_down"}, .producer = "mlp_up"});
  return found;
}

}  // namespace colossal::models
