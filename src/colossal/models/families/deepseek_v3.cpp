// DeepSeek-V3 and R1 (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024), as in transformers'
// DeepseekV3ForCausalLM: without the layers for multi-token prediction.
#include "colossal/models/deepseek_fields.h"
#include "colossal/models/families/list.h"

namespace colossal::models::deepseek_v3 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_deepseek_fields(fields, {.first_dense_layers = 3,
                                                           .experts = 256,
                                                           .chosen = 8,
                                                           .expert_inner = 2048,
                                                           .expert_scale = 2.5});
  read_latent_rotary(fields, fields.flag("rope_interleave", true), config);
  config.router.scores = nn::RouterOptions::Scores::sigmoid;
  config.router.normalized = fields.flag("norm_topk_prob", true);
  config.router.correction_bias = true;
  config.router.best_of_group = 2;
  read_expert_groups(fields, 8, 4, config);
  fields.require("scoring_func", "sigmoid");
  fields.require("topk_method", "noaux_tc");
  fields.ignore("num_nextn_predict_layers");
  fields.ignore("num_mtp_layers");
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = deepseek_weight_names(config);
  names.unused.push_back(fmt::format("model.layers.{}.", config.layers));
  return names;
}

}  // namespace

Family family() {
  return {.model_type = "deepseek_v3",
          .architecture = "DeepseekV3ForCausalLM",
          .defaults = {{"vocab_size", 129280},
                       {"hidden_size", 7168},
                       {"intermediate_size", 18432},
                       {"num_hidden_layers", 61},
                       {"num_attention_heads", 128},
                       {"num_key_value_heads", 128}},
          .other_names = {{"num_local_experts", "n_routed_experts"}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = weight_names,
          .presets = {{"deepseek-v3",
                       {{"vocab_size", 129280},
                        {"hidden_size", 7168},
                        {"intermediate_size", 18432},
                        {"num_hidden_layers", 61},
                        {"num_attention_heads", 128},
                        {"max_position_embeddings", 163840},
                        {"rope_scaling",
                         {{"rope_type", "yarn"},
                          {"factor", 40},
                          {"original_max_position_embeddings", 4096},
                          {"beta_fast", 32},
                          {"beta_slow", 1},
                          {"mscale", 1.0},
                          {"mscale_all_dim", 1.0}}}}}}};
}

}  // namespace colossal::models::deepseek_v3
