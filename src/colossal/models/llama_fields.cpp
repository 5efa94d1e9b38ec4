#include "colossal/models/llama_fields.h"

#include "colossal/models/rotary_fields.h"

namespace colossal::models {
namespace {

void read_heads(ConfigFields& fields, const LlamaDefaults& defaults, TransformerConfig& config) {
  config.heads = fields.required_size("num_attention_heads", kMaximumWidth);
  config.kv_heads = fields.size("num_key_value_heads", config.heads, kMaximumWidth);
  if (config.heads % config.kv_heads != 0) {
    throw FieldError(
        {"num_key_value_heads", "num_attention_heads"}, "",
        fmt::format("num_attention_heads = {} is not a multiple of num_key_value_heads = {}",
                    config.heads, config.kv_heads));
  }
  const bool follows = defaults.head_size == 0 && !fields.has("head_dim");
  if (follows || defaults.heads_divide_hidden) {
    set_head_size(config, "hidden_size", "num_attention_heads");
  }
  config.head_size = fields.size(
      "head_dim", defaults.head_size > 0 ? defaults.head_size : config.head_size, kMaximumWidth);
  if (config.query_features() > kMaximumWidth) {
    throw FieldError({"head_dim", "num_attention_heads"}, "",
                     fmt::format("num_attention_heads = {} x head_dim = {}: at most {} in all",
                                 config.heads, config.head_size, kMaximumWidth));
  }
}

void read_norm(ConfigFields& fields, const LlamaDefaults& defaults, TransformerConfig& config) {
  config.norm = defaults.norm;
  const bool rms = defaults.norm == TransformerConfig::Norm::rms;
  config.norm_epsilon =
      fields.number(rms ? "rms_norm_eps" : "layer_norm_eps", defaults.norm_epsilon, 0, 1);
}

}  // namespace

TransformerConfig read_llama_fields(ConfigFields& fields, const LlamaDefaults& defaults) {
  TransformerConfig config;
  config.vocabulary = fields.required_size("vocab_size", kMaximumVocabulary);
  config.hidden = fields.required_size("hidden_size", kMaximumWidth);
  config.inner = fields.required_size("intermediate_size", 4 * kMaximumWidth);
  config.layers = fields.required_size("num_hidden_layers", kMaximumLayers);
  read_heads(fields, defaults, config);
  config.positions = fields.size("max_position_embeddings", defaults.positions, kMaximumPositions);
  read_norm(fields, defaults, config);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1);
  config.attention_dropout = fields.dropout("attention_dropout", 0);
  config.tied_head = fields.flag("tie_word_embeddings", defaults.tied_head);
  config.activation = read_activation(fields, defaults.activation_field, defaults.activation);
  return config;
}

int64_t read_used_window(ConfigFields& fields, int64_t fallback) {
  constexpr const char* kWindow = "sliding_window";
  const bool uses = fields.flag("use_sliding_window", false);
  if (uses && fallback > 0 && !fields.json().contains(kWindow)) {
    return fields.size(kWindow, fallback, kMaximumPositions);
  }
  if (uses || !fields.has(kWindow)) return fields.size_or_none(kWindow, kMaximumPositions);
  fields.count(kWindow, 0, kMaximumPositions);  // transformers writes 0 for a window without use
  return 0;
}

void read_qwen_windows(ConfigFields& fields, TransformerConfig& config) {
  const int64_t window = read_used_window(fields, 4096);
  const int64_t from = fields.count("max_window_layers", 28, kMaximumLayers);
  const std::vector<bool> sliding = read_sliding_layers(
      fields, config, [&](int64_t layer) { return window > 0 && layer >= from; });
  if (window > 0) set_windows(config, sliding, window);
}

WeightNames llama_weight_names(const TransformerConfig&) {
  return {.blocks = "model.layers.",
          .of_a_block = {{"attention_norm", "input_layernorm"},
                         {"query", "self_attn.q_proj"},
                         {"key", "self_attn.k_proj"},
                         {"value", "self_attn.v_proj"},
                         {"query_norm", "self_attn.q_norm"},
                         {"key_norm", "self_attn.k_norm"},
                         {"attention_output", "self_attn.o_proj"},
                         {"mlp_norm", "post_attention_layernorm"},
                         {"mlp_gate", "mlp.gate_proj"},
                         {"mlp_up", "mlp.up_proj"},
                         {"mlp_down", "mlp.down_proj"}},
          .others = {{"token_embedding", "model.embed_tokens"},
                     {"final_norm", "model.norm"},
                     {"head", "lm_head"}},
          .computed = {".rotary_emb.inv_freq"}};
}

}  // namespace colossal::models
