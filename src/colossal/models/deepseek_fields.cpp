#include "colossal/models/deepseek_fields.h"

#include <cmath>

#include "colossal/models/expert_fields.h"
#include "colossal/models/llama_fields.h"

namespace colossal::models {
namespace {

void read_latents(ConfigFields& fields, TransformerConfig& config) {
  const bool without_query_rank =
      fields.json().contains("q_lora_rank") && !fields.has("q_lora_rank");
  config.query_rank = without_query_rank ? fields.size_or_none("q_lora_rank", kMaximumWidth)
                                         : fields.size("q_lora_rank", 1536, kMaximumWidth);
  config.key_value_rank = fields.size("kv_lora_rank", 512, kMaximumWidth);
  const int64_t plain = fields.size("qk_nope_head_dim", 128, kMaximumWidth);
  const int64_t rotary = fields.size("qk_rope_head_dim", 64, kMaximumWidth);
  config.head_size = plain + rotary;
  config.value_size = fields.size("v_head_dim", 128, kMaximumWidth);
  config.attention.front().rotary.channels = rotary;
  if (config.kv_heads != config.heads) {
    throw FieldError(
        {"num_key_value_heads", "num_attention_heads"}, "",
        fmt::format("num_key_value_heads = {} and num_attention_heads = {}: with latent attention "
                    "each head has its own keys, so both must be equal",
                    config.kv_heads, config.heads));
  }
  if (config.heads * std::max(config.head_size, config.value_size) > kMaximumWidth) {
    throw FieldError({"num_attention_heads", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"},
                     "",
                     fmt::format("{} heads of {} + {} features, and of {} of values: at most {} in "
                                 "all",
                                 config.heads, plain, rotary, config.value_size, kMaximumWidth));
  }
  // transformers writes these two fields and does not read them.
  fields.ignore("head_dim");
  fields.ignore("qk_head_dim");
}

void read_experts(ConfigFields& fields, const DeepseekDefaults& defaults,
                  TransformerConfig& config) {
  if (defaults.chosen == 0) fields.required_size("num_experts_per_tok", kMaximumWidth);
  config.router = read_router(fields, {.experts_field = "n_routed_experts",
                                       .experts = defaults.experts,
                                       .chosen = defaults.chosen});
  config.router.scale = fields.number("routed_scaling_factor", defaults.expert_scale, 0, 1e6);
  config.expert_inner =
      fields.size("moe_intermediate_size", defaults.expert_inner, 4 * kMaximumWidth);
  config.shared_inner =
      fields.size("n_shared_experts", defaults.shared_experts, 1024) * config.expert_inner;
  const int64_t dense =
      fields.count("first_k_dense_replace", defaults.first_dense_layers, kMaximumLayers);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    config.layers_with_experts.push_back(layer >= dense);
  }
  // Published files have these fields; transformers reads none of them.
  fields.require("moe_layer_freq", 1);
  for (const char* field : {"aux_loss_alpha", "seq_aux", "ep_size", "output_router_logits"}) {
    fields.ignore(field);
  }
}

}  // namespace

TransformerConfig read_deepseek_fields(ConfigFields& fields, const DeepseekDefaults& defaults) {
  // The head sizes are separate fields, so the number of heads need not divide the hidden size.
  const int64_t rotary = fields.size("qk_rope_head_dim", 64, kMaximumWidth);
  TransformerConfig config =
      read_llama_fields(fields, {.positions = defaults.positions, .head_size = rotary});
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  read_latents(fields, config);
  read_experts(fields, defaults, config);
  fields.ignore("pretraining_tp");
  return config;
}

void read_latent_rotary(ConfigFields& fields, bool interleaved, TransformerConfig& config) {
  TransformerConfig of_rotary = config;
  of_rotary.head_size = config.attention.front().rotary.channels;
  LayerAttention& attention = config.attention.front();
  attention.rotary = read_rotary(fields, of_rotary, {.interleaved = interleaved});
  attention.rotary.channels = of_rotary.head_size;
  const ops::RotaryOptions& rotary = attention.rotary;
  if (rotary.mscale_all_dim > 0 && rotary.factor > 1) {
    const double raised = 0.1 * rotary.mscale_all_dim * std::log(rotary.factor) + 1;
    attention.scale = raised * raised / std::sqrt(static_cast<double>(config.head_size));
  }
}

void read_expert_groups(ConfigFields& fields, int64_t groups, int64_t chosen_groups,
                        TransformerConfig& config) {
  nn::RouterOptions& router = config.router;
  router.groups = fields.size("n_group", groups, router.experts);
  router.chosen_groups = fields.size("topk_group", chosen_groups, router.groups);
  const int64_t of_group = router.experts / router.groups;
  if (router.experts % router.groups != 0 || of_group < router.best_of_group ||
      router.chosen > router.chosen_groups * of_group) {
    throw FieldError({"n_group", "topk_group", "n_routed_experts", "num_experts_per_tok"}, "",
                     fmt::format("{} experts in {} groups, of which {} are chosen, with {} experts "
                                 "for a token: groups must be equal, with at least {} experts "
                                 "each, and the chosen ones must have enough experts for a token",
                                 router.experts, router.groups, router.chosen_groups, router.chosen,
                                 router.best_of_group));
  }
}

WeightNames deepseek_weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  names.set("query", "self_attn.q_proj", latent_queries(config));
  names.set("query_down", "self_attn.q_a_proj");
  names.set("query_latent_norm", "self_attn.q_a_layernorm");
  names.set("query_up", "self_attn.q_b_proj", latent_queries(config));
  names.set("key_value_down", "self_attn.kv_a_proj_with_mqa");
  names.set("key_value_latent_norm", "self_attn.kv_a_layernorm");
  names.set("key_value_up", "self_attn.kv_b_proj");
  name_experts(names, config, kMlpExperts);
  names.set("router.correction_bias", "mlp.gate.e_score_correction_bias");
  names.set("shared_mlp_gate", "mlp.shared_experts.gate_proj");
  names.set("shared_mlp_up", "mlp.shared_experts.up_proj");
  names.set("shared_mlp_down", "mlp.shared_experts.down_proj");
  return names;
}

}  // namespace colossal::models
