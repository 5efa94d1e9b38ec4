// Mistral (A. Jiang et al., "Mistral 7B", 2023), as in transformers' MistralForCausalLM: Llama,
// optionally with a sliding window.
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::mistral {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 131072});
  config.attention.front().rotary = read_rotary(fields, config, {});
  config.attention.front().window = fields.size_or_none("sliding_window", kMaximumPositions);
  return config;
}

Preset sized(const char* name, const nlohmann::json& fields) {
  Preset preset{name,
                {{"hidden_size", 4096},
                 {"intermediate_size", 14336},
                 {"num_hidden_layers", 32},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 8},
                 {"max_position_embeddings", 32768},
                 {"rms_norm_eps", 1e-5}}};
  preset.fields.update(fields);
  return preset;
}

}  // namespace

Family family() {
  return {
      .model_type = "mistral",
      .architecture = "MistralForCausalLM",
      .defaults = {{"vocab_size", 32000},
                   {"hidden_size", 4096},
                   {"intermediate_size", 14336},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 8},
                   {"sliding_window", 4096}},
      .simplify = use_older_rotary_fields,
      .read = read,
      .weights = llama_weight_names,
      .presets = {sized("mistral-7b-v0.1", {{"vocab_size", 32000}, {"sliding_window", 4096}}),
                  sized("mistral-7b-v0.3",
                        {{"vocab_size", 32768}, {"rope_theta", 1e6}, {"sliding_window", nullptr}}),
                  sized("mistral-nemo-12b", {{"vocab_size", 131072},
                                             {"hidden_size", 5120},
                                             {"num_hidden_layers", 40},
                                             {"head_dim", 128},
                                             {"max_position_embeddings", 131072},
                                             {"rope_theta", 1e6},
                                             {"sliding_window", nullptr}})}};
}

}  // namespace colossal::models::mistral
