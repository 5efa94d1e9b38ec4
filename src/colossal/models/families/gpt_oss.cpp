// GPT-OSS (OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025), as in transformers'
// GptOssForCausalLM: every layer has experts, every other layer has a sliding window, and attention
// has sinks.
#include "colossal/models/expert_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::gpt_oss {
namespace {

// YaRN is the default if config.json has no rotary fields.
void simplify(nlohmann::json& config) {
  const ConfigFields fields(config);
  if (!fields.has("rope_parameters") && !fields.has("rope_scaling")) {
    config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 32.0},
                              {"beta_fast", 32.0},   {"beta_slow", 1.0},
                              {"truncate", false},   {"original_max_position_embeddings", 4096}};
  }
  use_older_rotary_fields(config);
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config =
      read_llama_fields(fields, {.positions = 131072, .head_size = 64, .norm_epsilon = 1e-5});
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", true);
  config.attention_sinks = true;
  config.attention.front().rotary = read_rotary(fields, config, {.base = 150000});
  const int64_t window = fields.size_or_none("sliding_window", kMaximumPositions);
  const std::vector<bool> sliding = read_sliding_layers(
      fields, config, [&](int64_t layer) { return window > 0 && layer % 2 == 0; });
  if (window > 0) set_windows(config, sliding, window);
  config.router =
      read_router(fields, {.experts_field = "num_local_experts", .experts = 128, .chosen = 4});
  config.router_losses = read_router_losses(fields, 0.001);
  config.router.scores = nn::RouterOptions::Scores::softmax_of_chosen;
  config.router.bias = true;
  config.expert_inner = config.inner;
  config.clamped_gate = ops::ClampedGate{.slope = fields.number("swiglu_alpha", 1.702, 0, 1e3),
                                         .limit = fields.number("swiglu_limit", 7, 1e-6, 1e6)};
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  names.set("attention.sinks", "self_attn.sinks");
  names.set("router", "mlp.router");
  names.set("experts.gate_up.weight", "mlp.experts.gate_up_proj");
  names.set("experts.gate_up.bias", "mlp.experts.gate_up_proj_bias");
  names.set("experts.down.weight", "mlp.experts.down_proj");
  names.set("experts.down.bias", "mlp.experts.down_proj_bias");
  return names;
}

Preset sized(const char* name, int64_t layers, int64_t experts) {
  return {name,
          {{"vocab_size", 201088},
           {"hidden_size", 2880},
           {"intermediate_size", 2880},
           {"num_hidden_layers", layers},
           {"num_local_experts", experts},
           {"num_attention_heads", 64},
           {"sliding_window", 128}}};
}

}  // namespace

Family family() {
  return {.model_type = "gpt_oss",
          .architecture = "GptOssForCausalLM",
          .defaults = {{"vocab_size", 201088},
                       {"hidden_size", 2880},
                       {"intermediate_size", 2880},
                       {"num_hidden_layers", 36},
                       {"num_attention_heads", 64},
                       {"num_key_value_heads", 8},
                       {"sliding_window", 128}},
          .other_names = {{"num_experts", "num_local_experts"}},
          .simplify = simplify,
          .read = read,
          .weights = weight_names,
          .presets = {sized("gpt-oss-20b", 24, 32), sized("gpt-oss-120b", 36, 128)}};
}

}  // namespace colossal::models::gpt_oss
