// Qwen3 with experts (A. Yang et al., "Qwen3 Technical Report", 2025), as in transformers'
// Qwen3MoeForCausalLM.
#include "colossal/models/expert_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::qwen3_moe {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 32768});
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  config.query_key_norm = {.kind = nn::QueryKeyNormOptions::Kind::rms,
                           .epsilon = config.norm_epsilon};
  config.attention.front().rotary = read_rotary(fields, config, {});
  config.attention.front().window = read_used_window(fields, 4096);
  fields.ignore("max_window_layers");  // transformers does not read it
  config.router =
      read_router(fields, {.experts_field = "num_experts", .experts = 128, .chosen = 8});
  config.router_losses = read_router_losses(fields, 0.001);
  config.router.normalized = fields.flag("norm_topk_prob", false);
  config.expert_inner = fields.size("moe_intermediate_size", 768, 4 * kMaximumWidth);
  read_sparse_layers(fields, config);
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  name_experts(names, config, kMlpExperts);
  return names;
}

Preset sized(const char* name, const nlohmann::json& fields) {
  Preset preset{name,
                {{"vocab_size", 151936},
                 {"head_dim", 128},
                 {"num_key_value_heads", 4},
                 {"max_position_embeddings", 40960},
                 {"rope_theta", 1e6},
                 {"num_experts", 128},
                 {"num_experts_per_tok", 8},
                 {"norm_topk_prob", true}}};
  preset.fields.update(fields);
  return preset;
}

}  // namespace

Family family() {
  return {.model_type = "qwen3_moe",
          .architecture = "Qwen3MoeForCausalLM",
          .defaults = {{"vocab_size", 151936},
                       {"hidden_size", 2048},
                       {"intermediate_size", 6144},
                       {"num_hidden_layers", 24},
                       {"num_attention_heads", 32},
                       {"num_key_value_heads", 4}},
          .other_names = {{"num_local_experts", "num_experts"}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = weight_names,
          .presets = {sized("qwen3-30b-a3b", {{"hidden_size", 2048},
                                              {"intermediate_size", 6144},
                                              {"moe_intermediate_size", 768},
                                              {"num_hidden_layers", 48},
                                              {"num_attention_heads", 32}}),
                      sized("qwen3-235b-a22b", {{"hidden_size", 4096},
                                                {"intermediate_size", 12288},
                                                {"moe_intermediate_size", 1536},
                                                {"num_hidden_layers", 94},
                                                {"num_attention_heads", 64}})}};
}

}  // namespace colossal::models::qwen3_moe
