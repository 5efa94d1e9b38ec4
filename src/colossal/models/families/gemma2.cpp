// Gemma 2 (Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024), as in
// transformers' Gemma2ForCausalLM: every other layer has a sliding window; scores and logits are
// capped.
#include "colossal/models/families/list.h"
#include "colossal/models/gemma_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::gemma2 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_gemma2_fields(fields, 8192);
  fields.ignore("hidden_act");  // transformers reads hidden_activation
  config.attention.front().rotary = read_rotary(fields, config, {});
  config.attention_soft_cap = fields.number_or_none("attn_logit_softcapping", 1e-3, 1e9);
  const std::vector<bool> sliding =
      read_sliding_layers(fields, config, [](int64_t layer) { return layer % 2 == 0; });
  set_windows(config, sliding, fields.size("sliding_window", 4096, kMaximumPositions));
  return config;
}

struct Size {
  int64_t layers, hidden, inner, heads, kv_heads, head_size, query_scalar;
};

Preset sized(const char* name, const Size& size) {
  return {name,
          {{"vocab_size", 256000},
           {"hidden_size", size.hidden},
           {"intermediate_size", size.inner},
           {"num_hidden_layers", size.layers},
           {"num_attention_heads", size.heads},
           {"num_key_value_heads", size.kv_heads},
           {"head_dim", size.head_size},
           {"query_pre_attn_scalar", size.query_scalar},
           {"attn_logit_softcapping", 50.0},
           {"final_logit_softcapping", 30.0}}};
}

}  // namespace

Family family() {
  return {.model_type = "gemma2",
          .architecture = "Gemma2ForCausalLM",
          .defaults = {{"vocab_size", 256000},
                       {"hidden_size", 2304},
                       {"intermediate_size", 9216},
                       {"num_hidden_layers", 26},
                       {"num_attention_heads", 8},
                       {"num_key_value_heads", 4},
                       {"final_logit_softcapping", 30.0},
                       {"attn_logit_softcapping", 50.0}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = gemma2_weight_names,
          .presets = {sized("gemma2-2b", {26, 2304, 9216, 8, 4, 256, 256}),
                      sized("gemma2-9b", {42, 3584, 14336, 16, 8, 256, 256}),
                      sized("gemma2-27b", {46, 4608, 36864, 32, 16, 128, 144})}};
}

}  // namespace colossal::models::gemma2
