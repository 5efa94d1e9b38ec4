// GPT-NeoX and Pythia (S. Black et al., "GPT-NeoX-20B", 2022; S. Biderman et al., "Pythia", 2023),
// as in transformers' GPTNeoXForCausalLM: parallel attention and MLP, each with its own norm.
#include "colossal/models/families/list.h"
#include "colossal/models/rotary_fields.h"
#include "colossal/models/transformer_fields.h"

namespace colossal::models::gpt_neox {
namespace {

// Renames the base and the rotary share to their older names, which transformers 5 reads too.
void simplify(nlohmann::json& config) {
  // transformers reads them in rope_parameters only
  config.erase("rope_theta");
  config.erase("partial_rotary_factor");
  use_older_rotary_fields(config);
  const auto rename = [&](const char* older, const char* newer) {
    if (config.contains(newer)) config[older] = config[newer];
    config.erase(newer);
  };
  rename("rotary_pct", "partial_rotary_factor");
  rename("rotary_emb_base", "rope_theta");
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_gpt2_style_decoder(
      fields,
      {.hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads"});
  config.inner = fields.required_size("intermediate_size", 4 * kMaximumWidth);
  config.positions = fields.size("max_position_embeddings", 2048, kMaximumPositions);
  config.activation = read_activation(fields, "hidden_act", "gelu");
  config.parallel_branches = fields.flag("use_parallel_residual", true);
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", true);
  config.mlp_up_bias = config.mlp_down_bias = true;
  config.norm_epsilon = fields.number("layer_norm_eps", 1e-5, 0, 1);
  config.initializer_range = fields.number("initializer_range", 0.02, 0, 1e3);
  config.embedding_dropout = config.attention_output_dropout = config.mlp_dropout =
      fields.dropout("hidden_dropout", 0);
  config.attention_dropout = fields.dropout("attention_dropout", 0);
  config.tied_head = fields.flag("tie_word_embeddings", false);
  fields.require_if_given("head_dim", config.head_size);
  // Of the first release; the dropouts of transformers' class are hidden_dropout and
  // attention_dropout.
  fields.ignore("attention_probs_dropout_prob");
  fields.ignore("hidden_dropout_prob");
  config.attention.front().rotary = read_rotary(
      fields, config,
      {.partial = 0.25, .base_field = "rotary_emb_base", .partial_field = "rotary_pct"});
  return config;
}

Preset pythia(const char* name, int64_t layers, int64_t hidden, int64_t heads) {
  return {name,
          {{"vocab_size", 50304},
           {"hidden_size", hidden},
           {"intermediate_size", 4 * hidden},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads}}};
}

WeightNames weight_names(const TransformerConfig& config) {
  return {.blocks = "gpt_neox.layers.",
          .of_a_block = {{"attention_norm", "input_layernorm"},
                         {"query", "attention.query_key_value", grouped_queries(config)},
                         {"key", "attention.query_key_value", grouped_keys(config)},
                         {"value", "attention.query_key_value", grouped_values(config)},
                         {"attention_output", "attention.dense"},
                         {"mlp_norm", "post_attention_layernorm"},
                         {"mlp_up", "mlp.dense_h_to_4h"},
                         {"mlp_down", "mlp.dense_4h_to_h"}},
          .others = {{"token_embedding", "gpt_neox.embed_in"},
                     {"final_norm", "gpt_neox.final_layer_norm"},
                     {"head", "embed_out"}},
          .computed = {".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias"}};
}

}  // namespace

Family family() {
  return {.model_type = "gpt_neox",
          .architecture = "GPTNeoXForCausalLM",
          .defaults = {{"vocab_size", 50432},
                       {"hidden_size", 6144},
                       {"intermediate_size", 24576},
                       {"num_hidden_layers", 44},
                       {"num_attention_heads", 64}},
          .simplify = simplify,
          .read = read,
          .weights = weight_names,
          .presets = {pythia("pythia-160m", 12, 768, 12), pythia("pythia-410m", 24, 1024, 16),
                      pythia("pythia-1b", 16, 2048, 8), pythia("pythia-2.8b", 32, 2560, 32),
                      pythia("pythia-6.9b", 32, 4096, 32)}};
}

}  // namespace colossal::models::gpt_neox
