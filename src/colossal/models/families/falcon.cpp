// Falcon (E. Almazrouei et al., "The Falcon Series of Open Language Models", 2023), as in
// transformers' FalconForCausalLM.
#include <cmath>

#include "colossal/models/families/list.h"
#include "colossal/models/rotary_fields.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::falcon {
namespace {

void read_heads(ConfigFields& fields, TransformerConfig& config, bool newer) {
  config.heads = fields.required_size("num_attention_heads", kMaximumWidth);
  const bool multi_query = fields.flag("multi_query", true);
  const int64_t kv_heads = fields.size("num_kv_heads", config.heads, kMaximumWidth);
  config.kv_heads = newer ? kv_heads : multi_query ? 1 : config.heads;
  if (config.heads % config.kv_heads != 0 || config.hidden % config.heads != 0) {
    throw FieldError(
        {"num_attention_heads", "num_kv_heads", "hidden_size"}, "",
        fmt::format("num_attention_heads = {} must divide hidden_size = {} and be a multiple of "
                    "num_kv_heads = {}",
                    config.heads, config.hidden, config.kv_heads));
  }
  config.head_size = config.hidden / config.heads;
  fields.require_if_given("head_dim", config.head_size);
}

// With ALiBi, its slopes are divided by sqrt(head_size), as the scores are; otherwise heads have
// rotary embeddings.
void read_positions(ConfigFields& fields, TransformerConfig& config) {
  config.positions = fields.size("max_position_embeddings", 2048, kMaximumPositions);
  const ops::RotaryOptions rotary = read_rotary(fields, config, {});
  if (fields.flag("alibi", false)) {
    config.alibi = 1 / std::sqrt(static_cast<double>(config.head_size));
  } else {
    config.attention.front().rotary = rotary;
  }
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config;
  config.norm = TransformerConfig::Norm::layer;
  config.gated = false;
  config.vocabulary = fields.required_size("vocab_size", kMaximumVocabulary);
  config.hidden = fields.required_size("hidden_size", kMaximumWidth);
  config.layers = fields.required_size("num_hidden_layers", kMaximumLayers);
  const bool newer = fields.flag("new_decoder_architecture", false);
  read_heads(fields, config, newer);
  read_positions(fields, config);
  config.inner = read_mlp_size(fields, "ffn_hidden_size", config);
  config.activation = read_activation(fields, "activation", "gelu");
  const bool bias = fields.flag("bias", false);
  config.qkv_bias = config.attention_output_bias = bias;
  config.mlp_up_bias = config.mlp_down_bias = bias;
  config.parallel_branches = fields.flag("parallel_attn", true);
  const int64_t norms = fields.size_or_none("num_ln_in_parallel_attn", 2);
  config.shared_norm = config.parallel_branches && !(newer && norms != 1);
  if (newer && !config.parallel_branches) {
    throw FieldError({"parallel_attn", "new_decoder_architecture"}, "parallel_attn = false",
                     "expected true where new_decoder_architecture is: transformers runs nothing "
                     "else");
  }
  config.norm_epsilon = fields.number("layer_norm_epsilon", 1e-5, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  // In a sequential block transformers applies attention_dropout to the attention's output too.
  config.mlp_dropout = fields.dropout("hidden_dropout", 0);
  config.attention_dropout = fields.dropout("attention_dropout", 0);
  config.attention_output_dropout =
      config.parallel_branches ? config.mlp_dropout : config.attention_dropout;
  config.one_branch_dropout = config.parallel_branches;
  config.tied_head = fields.flag("tie_word_embeddings", true);
  fields.ignore("apply_residual_connection_post_layernorm");  // transformers does not read it
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names{
      .blocks = "transformer.h.",
      .of_a_block = {{"query", "self_attention.query_key_value", grouped_queries(config)},
                     {"key", "self_attention.query_key_value", grouped_keys(config)},
                     {"value", "self_attention.query_key_value", grouped_values(config)},
                     {"attention_output", "self_attention.dense"},
                     {"mlp_up", "mlp.dense_h_to_4h"},
                     {"mlp_down", "mlp.dense_4h_to_h"}},
      .others = {{"token_embedding", "transformer.word_embeddings"},
                 {"final_norm", "transformer.ln_f"},
                 {"head", "lm_head"}}};
  const bool two_norms = config.parallel_branches && !config.shared_norm;
  names.set("attention_norm", two_norms ? "ln_attn" : "input_layernorm");
  names.set("mlp_norm", two_norms ? "ln_mlp" : "post_attention_layernorm");
  return names;
}

}  // namespace

Family family() {
  return {.model_type = "falcon",
          .architecture = "FalconForCausalLM",
          .defaults = {{"vocab_size", 65024},
                       {"hidden_size", 4544},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 71}},
          .other_names = {{"n_embed", "hidden_size"}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = weight_names,
          .presets = {{"falcon-7b",
                       {{"vocab_size", 65024},
                        {"hidden_size", 4544},
                        {"num_hidden_layers", 32},
                        {"num_attention_heads", 71}}},
                      {"falcon-40b",
                       {{"vocab_size", 65024},
                        {"hidden_size", 8192},
                        {"num_hidden_layers", 60},
                        {"num_attention_heads", 128},
                        {"num_kv_heads", 8},
                        {"new_decoder_architecture", true}}}}};
}

}  // namespace colossal::models::falcon
