// Gemma (Gemma Team, "Gemma: Open Models Based on Gemini Research and Technology", 2024), as in
// transformers' GemmaForCausalLM.
#include "colossal/models/families/list.h"
#include "colossal/models/gemma_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::gemma {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_gemma_fields(
      fields,
      {.positions = 8192, .head_size = 256, .tied_head = true, .activation = "gelu_pytorch_tanh"});
  // The published files have hidden_act = "gelu" but mean its tanh approximation. Some also name it
  // in hidden_activation, which transformers 5 does not read.
  if (config.activation == ops::Activation::gelu) config.activation = ops::Activation::gelu_tanh;
  const nlohmann::json newer = fields.json().value("hidden_activation", nlohmann::json());
  if (newer == "gelu_pytorch_tanh") fields.ignore("hidden_activation");
  config.attention.front().rotary = read_rotary(fields, config, {});
  return config;
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t inner, int64_t heads,
             int64_t kv_heads) {
  return {name,
          {{"vocab_size", 256000},
           {"hidden_size", hidden},
           {"intermediate_size", inner},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads},
           {"num_key_value_heads", kv_heads},
           {"head_dim", 256},
           {"max_position_embeddings", 8192}}};
}

}  // namespace

Family family() {
  return {.model_type = "gemma",
          .architecture = "GemmaForCausalLM",
          .defaults = {{"vocab_size", 256000},
                       {"hidden_size", 3072},
                       {"intermediate_size", 24576},
                       {"num_hidden_layers", 28},
                       {"num_attention_heads", 16},
                       {"num_key_value_heads", 16}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = llama_weight_names,
          .presets = {sized("gemma-2b", 18, 2048, 16384, 8, 1),
                      sized("gemma-7b", 28, 3072, 24576, 16, 16)}};
}

}  // namespace colossal::models::gemma
