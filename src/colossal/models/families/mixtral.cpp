// Mixtral (A. Jiang et al., "Mixtral of Experts", 2024), as in transformers' MixtralForCausalLM:
// Mistral with experts instead of MLPs, two for each token.
#include "colossal/models/expert_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::mixtral {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 131072, .norm_epsilon = 1e-5});
  config.attention.front().rotary = read_rotary(fields, config, {.base = 1e6});
  config.attention.front().window = fields.size_or_none("sliding_window", kMaximumPositions);
  config.router =
      read_router(fields, {.experts_field = "num_local_experts", .experts = 8, .chosen = 2});
  config.router_losses = read_router_losses(fields, 0.001);
  config.router.normalized = true;
  config.expert_inner = config.inner;
  fields.require("router_jitter_noise", 0.0);
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  name_experts(names, config,
               {.router = "block_sparse_moe.gate",
                .gate = "block_sparse_moe.experts.{}.w1",
                .up = "block_sparse_moe.experts.{}.w3",
                .down = "block_sparse_moe.experts.{}.w2"});
  return names;
}

Preset sized(const char* name, const nlohmann::json& fields) {
  Preset preset{name,
                {{"hidden_size", 4096},
                 {"intermediate_size", 14336},
                 {"num_hidden_layers", 32},
                 {"num_attention_heads", 32},
                 {"num_key_value_heads", 8},
                 {"max_position_embeddings", 32768},
                 {"rope_theta", 1e6}}};
  preset.fields.update(fields);
  return preset;
}

}  // namespace

Family family() {
  return {.model_type = "mixtral",
          .architecture = "MixtralForCausalLM",
          .defaults = {{"vocab_size", 32000},
                       {"hidden_size", 4096},
                       {"intermediate_size", 14336},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 32},
                       {"num_key_value_heads", 8}},
          .other_names = {{"num_experts", "num_local_experts"}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = weight_names,
          .presets = {sized("mixtral-8x7b", {{"vocab_size", 32000}}),
                      sized("mixtral-8x22b", {{"vocab_size", 32768},
                                              {"hidden_size", 6144},
                                              {"intermediate_size", 16384},
                                              {"num_hidden_layers", 56},
                                              {"num_attention_heads", 48},
                                              {"max_position_embeddings", 65536}})}};
}

}  // namespace colossal::models::mixtral
