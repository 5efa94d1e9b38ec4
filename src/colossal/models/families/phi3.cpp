// Phi-3 and Phi-4 (M. Abdin et al., "Phi-3 Technical Report" and "Phi-4 Technical Report", 2024),
// as in transformers' Phi3ForCausalLM: Llama whose files concatenate queries, keys and values, and
// gate and up.
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::phi3 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 4096, .norm_epsilon = 1e-5});
  config.attention_output_dropout = config.mlp_dropout = fields.dropout("resid_pdrop", 0);
  fields.ignore("embd_pdrop");  // transformers does not read it
  const int64_t original = fields.size("original_max_position_embeddings", 4096, kMaximumPositions);
  config.attention.front().rotary = read_rotary(
      fields, config, {.original_positions = original, .partial_field = "partial_rotary_factor"});
  config.attention.front().window = fields.size_or_none("sliding_window", kMaximumPositions);
  return config;
}

// Older files name the scaling "su" or "yarn" instead of "longrope".
void simplify(nlohmann::json& config) {
  use_older_rotary_fields(config);
  nlohmann::json& scaling = config["rope_scaling"];
  if (!scaling.is_object()) return;
  for (const char* field : {"rope_type", "type"}) {
    const auto found = scaling.find(field);
    if (found != scaling.end() && (*found == "su" || *found == "yarn")) *found = "longrope";
  }
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  names.set("query", "self_attn.qkv_proj", stacked_queries(config));
  names.set("key", "self_attn.qkv_proj", stacked_keys(config));
  names.set("value", "self_attn.qkv_proj", stacked_values(config));
  names.set("mlp_gate", "mlp.gate_up_proj", stacked_gate(config));
  names.set("mlp_up", "mlp.gate_up_proj", stacked_up(config));
  return names;
}

Preset sized(const char* name, const nlohmann::json& fields) {
  Preset preset{name,
                {{"vocab_size", 32064},
                 {"hidden_size", 3072},
                 {"intermediate_size", 8192},
                 {"num_hidden_layers", 32},
                 {"num_attention_heads", 32}}};
  preset.fields.update(fields);
  return preset;
}

}  // namespace

Family family() {
  return {.model_type = "phi3",
          .architecture = "Phi3ForCausalLM",
          .defaults = {{"vocab_size", 32064},
                       {"hidden_size", 3072},
                       {"intermediate_size", 8192},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 32}},
          .simplify = simplify,
          .read = read,
          .weights = weight_names,
          .presets = {sized("phi3-mini-4k", {{"sliding_window", 2047}}),
                      sized("phi4-14b", {{"vocab_size", 100352},
                                         {"hidden_size", 5120},
                                         {"intermediate_size", 17920},
                                         {"num_hidden_layers", 40},
                                         {"num_attention_heads", 40},
                                         {"num_key_value_heads", 10},
                                         {"max_position_embeddings", 16384},
                                         {"original_max_position_embeddings", 16384},
                                         {"rope_theta", 250000.0}})}};
}

}  // namespace colossal::models::phi3
