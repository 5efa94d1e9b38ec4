// DeepSeek-V2 (DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts
// Language Model", 2024), as in transformers' DeepseekV2ForCausalLM.
#include "colossal/models/deepseek_fields.h"
#include "colossal/models/families/list.h"

namespace colossal::models::deepseek_v2 {
namespace {

void read_choice(ConfigFields& fields, TransformerConfig& config) {
  const std::string method = fields.text("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    read_expert_groups(fields, 1, 1, config);
  } else if (method == "greedy") {
    fields.ignore("n_group");
    fields.ignore("topk_group");
  } else {
    throw FieldError({"topk_method"}, fmt::format("topk_method = \"{}\"", method),
                     "expected \"greedy\" or \"group_limited_greedy\"");
  }
  // transformers ignores norm_topk_prob; DeepSeek's own code does not.
  fields.require("norm_topk_prob", false);
  fields.require("scoring_func", "softmax");
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_deepseek_fields(
      fields, {.positions = 2048, .experts = 64, .expert_inner = 1407, .shared_experts = 2});
  read_latent_rotary(fields, /*interleaved=*/true, config);
  config.mlp_up_bias = config.mlp_down_bias = fields.flag("mlp_bias", false);
  read_choice(fields, config);
  return config;
}

Preset sized(const char* name, const nlohmann::json& fields) {
  Preset preset{name,
                {{"vocab_size", 102400},
                 {"max_position_embeddings", 163840},
                 {"rope_scaling",
                  {{"rope_type", "yarn"},
                   {"factor", 40},
                   {"original_max_position_embeddings", 4096},
                   {"beta_fast", 32},
                   {"beta_slow", 1}}},
                 {"first_k_dense_replace", 1},
                 {"num_experts_per_tok", 6}}};
  preset.fields.update(fields, /*merge_objects=*/true);
  return preset;
}

}  // namespace

Family family() {
  return {.model_type = "deepseek_v2",
          .architecture = "DeepseekV2ForCausalLM",
          .defaults = {{"vocab_size", 102400},
                       {"hidden_size", 4096},
                       {"intermediate_size", 11008},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 32}},
          .other_names = {{"num_experts", "n_routed_experts"}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = deepseek_weight_names,
          .presets = {sized("deepseek-v2-lite",
                            {{"hidden_size", 2048},
                             {"intermediate_size", 10944},
                             {"moe_intermediate_size", 1408},
                             {"num_hidden_layers", 27},
                             {"num_attention_heads", 16},
                             {"q_lora_rank", nullptr},
                             {"rope_scaling", {{"mscale", 0.707}, {"mscale_all_dim", 0.707}}}}),
                      sized("deepseek-v2",
                            {{"hidden_size", 5120},
                             {"intermediate_size", 12288},
                             {"moe_intermediate_size", 1536},
                             {"num_hidden_layers", 60},
                             {"num_attention_heads", 128},
                             {"n_routed_experts", 160},
                             {"topk_method", "group_limited_greedy"},
                             {"n_group", 8},
                             {"topk_group", 3},
                             {"routed_scaling_factor", 16.0},
                             {"rope_scaling", {{"mscale", 0.707}, {"mscale_all_dim", 0.707}}}})}};
}

}  // namespace colossal::models::deepseek_v2
