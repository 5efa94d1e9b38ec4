// Qwen1.5 and Qwen2 with experts (Qwen Team, "Qwen1.5-MoE", 2024), as in transformers'
// Qwen2MoeForCausalLM.
#include "colossal/models/expert_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::qwen2_moe {
namespace {

void read_windows(ConfigFields& fields, TransformerConfig& config) {
  const int64_t window = read_used_window(fields, 4096);
  const int64_t until = fields.count("max_window_layers", 28, kMaximumLayers);
  const std::vector<bool> sliding = read_sliding_layers(
      fields, config, [&](int64_t layer) { return window > 0 && layer % 2 == 0 && layer < until; });
  if (window > 0) set_windows(config, sliding, window);
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 32768});
  config.qkv_bias = fields.flag("qkv_bias", true);
  config.attention.front().rotary = read_rotary(fields, config, {});
  read_windows(fields, config);
  config.router = read_router(fields, {.experts_field = "num_experts", .experts = 60, .chosen = 4});
  config.router_losses = read_router_losses(fields, 0.001);
  config.router.normalized = fields.flag("norm_topk_prob", false);
  config.expert_inner = fields.size("moe_intermediate_size", 1408, 4 * kMaximumWidth);
  config.shared_inner = fields.size("shared_expert_intermediate_size", 5632, 4 * kMaximumWidth);
  config.shared_gate = true;
  read_sparse_layers(fields, config);
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  name_experts(names, config, kMlpExperts);
  names.set("shared_mlp_gate", "mlp.shared_expert.gate_proj");
  names.set("shared_mlp_up", "mlp.shared_expert.up_proj");
  names.set("shared_mlp_down", "mlp.shared_expert.down_proj");
  names.set("shared_gate", "mlp.shared_expert_gate");
  return names;
}

}  // namespace

Family family() {
  return {.model_type = "qwen2_moe",
          .architecture = "Qwen2MoeForCausalLM",
          .defaults = {{"vocab_size", 151936},
                       {"hidden_size", 2048},
                       {"intermediate_size", 5632},
                       {"num_hidden_layers", 24},
                       {"num_attention_heads", 16},
                       {"num_key_value_heads", 16}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = weight_names,
          .presets = {{"qwen1.5-moe-a2.7b",
                       {{"vocab_size", 151936},
                        {"hidden_size", 2048},
                        {"intermediate_size", 5632},
                        {"num_hidden_layers", 24},
                        {"num_attention_heads", 16},
                        {"num_key_value_heads", 16},
                        {"max_position_embeddings", 8192},
                        {"rope_theta", 1e6}}},
                      {"qwen2-57b-a14b",
                       {{"vocab_size", 151936},
                        {"hidden_size", 3584},
                        {"intermediate_size", 18944},
                        {"moe_intermediate_size", 2560},
                        {"shared_expert_intermediate_size", 20480},
                        {"num_hidden_layers", 28},
                        {"num_attention_heads", 28},
                        {"num_key_value_heads", 4},
                        {"num_experts", 64},
                        {"num_experts_per_tok", 8},
                        {"max_position_embeddings", 65536},
                        {"rope_theta", 1e6}}}}};
}

}  // namespace colossal::models::qwen2_moe
