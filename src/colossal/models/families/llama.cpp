// Llama (H. Touvron et al. 2023; A. Grattafiori et al., "The Llama 3 Herd of Models", 2024), as in
// transformers' LlamaForCausalLM.
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::llama {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.heads_divide_hidden = true});
  config.attention.front().rotary = read_rotary(fields, config, {});
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  config.mlp_up_bias = config.mlp_down_bias = fields.flag("mlp_bias", false);
  return config;
}

struct Size {
  int64_t layers, hidden, inner, heads, kv_heads;
};

Preset llama2(const char* name, const Size& size) {
  return {name,
          {{"vocab_size", 32000},
           {"hidden_size", size.hidden},
           {"intermediate_size", size.inner},
           {"num_hidden_layers", size.layers},
           {"num_attention_heads", size.heads},
           {"num_key_value_heads", size.kv_heads},
           {"max_position_embeddings", 4096},
           {"rms_norm_eps", 1e-5}}};
}

Preset llama3(const char* name, const Size& size, double factor) {
  Preset preset = llama2(name, size);
  preset.fields.update({{"vocab_size", 128256},
                        {"max_position_embeddings", 131072},
                        {"rope_theta", 500000.0},
                        {"rope_scaling",
                         {{"rope_type", "llama3"},
                          {"factor", factor},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}}}});
  return preset;
}

Preset with(Preset preset, const nlohmann::json& fields) {
  preset.fields.update(fields);
  return preset;
}

}  // namespace

Family family() {
  return {.model_type = "llama",
          .architecture = "LlamaForCausalLM",
          .defaults = {{"vocab_size", 32000},
                       {"hidden_size", 4096},
                       {"intermediate_size", 11008},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 32}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = llama_weight_names,
          .presets = {with(llama2("llama-tiny", {4, 256, 688, 4, 2}),
                           {{"vocab_size", 512}, {"max_position_embeddings", 1024}}),
                      llama2("llama2-7b", {32, 4096, 11008, 32, 32}),
                      llama2("llama2-70b", {80, 8192, 28672, 64, 8}),
                      with(llama3("llama3.2-1b", {16, 2048, 8192, 32, 8}, 32),
                           {{"tie_word_embeddings", true}}),
                      llama3("llama3.1-8b", {32, 4096, 14336, 32, 8}, 8),
                      llama3("llama3.1-70b", {80, 8192, 28672, 64, 8}, 8),
                      llama3("llama3.1-405b", {126, 16384, 53248, 128, 8}, 8)}};
}

}  // namespace colossal::models::llama
