#include "colossal/models/llama_fields.h"

#include "colossal/models/rotary_fields.h"

namespace colossal::models {
namespace {

void read_heads(ConfigFields& fields, const LlamaDefaults& defaults, DecoderConfig& config) {
  config.heads = fields.required_size("num_attention_heads", kMaximumWidth);
  config.kv_heads =
      fields.size("num_key_value_heads", defaults.kv_heads > 0 ? defaults.kv_heads : config.heads,
                  kMaximumWidth);
  if (config.heads % config.kv_heads != 0) {
    throw FieldError(
        {"num_key_value_heads", "num_attention_heads"}, "",
        fmt::format("num_attention_heads = {} is not a multiple of num_key_value_heads = {}",
                    config.heads, config.kv_heads));
  }
  if (defaults.head_size == 0 && !fields.has("head_dim") && config.hidden % config.heads != 0) {
    throw FieldError({"num_attention_heads", "hidden_size"}, "",
                     fmt::format("hidden_size = {} is not a multiple of num_attention_heads = {}",
                                 config.hidden, config.heads));
  }
  config.head_size = fields.size(
      "head_dim", defaults.head_size > 0 ? defaults.head_size : config.hidden / config.heads,
      kMaximumWidth);
  if (config.query_features() > kMaximumWidth) {
    throw FieldError({"head_dim", "num_attention_heads"}, "",
                     fmt::format("num_attention_heads = {} x head_dim = {}: at most {} in all",
                                 config.heads, config.head_size, kMaximumWidth));
  }
  if (config.head_size % 2 != 0) {
    throw FieldError({"head_dim", "hidden_size", "num_attention_heads"},
                     fmt::format("head_dim = {}", config.head_size),
                     "rotary positions turn pairs of channels, so a head's size must be even");
  }
}

}  // namespace

DecoderConfig read_llama_fields(ConfigFields& fields, const LlamaDefaults& defaults) {
  DecoderConfig config;
  config.vocabulary = fields.required_size("vocab_size", kMaximumVocabulary);
  config.hidden = fields.required_size("hidden_size", kMaximumWidth);
  config.inner = fields.required_size("intermediate_size", 4 * kMaximumWidth);
  config.layers = fields.required_size("num_hidden_layers", kMaximumLayers);
  read_heads(fields, defaults, config);
  config.positions = fields.size("max_position_embeddings", defaults.positions, kMaximumPositions);
  config.norm_epsilon = fields.number("rms_norm_eps", defaults.norm_epsilon, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1);
  config.attention_dropout = fields.dropout("attention_dropout", 0);
  config.tied_head = fields.flag("tie_word_embeddings", defaults.tied_head);
  fields.require("hidden_act", "silu");
  fields.require("partial_rotary_factor", 1.0);
  config.attention.front().rotary = read_rotary(fields, config.positions, defaults.rotary_base);
  return config;
}

WeightNames llama_weight_names() {
  return {.blocks = "model.layers.",
          .of_a_block = {{"attention_norm", "input_layernorm"},
                         {"query", "self_attn.q_proj"},
                         {"key", "self_attn.k_proj"},
                         {"value", "self_attn.v_proj"},
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
