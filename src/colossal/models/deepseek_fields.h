// What config.json and the files of DeepSeek's decoders with latent attention have in common.
#pragma once

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/rotary_fields.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Where transformers' defaults for a version differ.
struct DeepseekDefaults {
  int64_t positions = 4096;
  int64_t first_dense_layers = 0;  // first_k_dense_replace
  int64_t experts = 0;             // n_routed_experts
  int64_t chosen = 0;              // num_experts_per_tok; 0: it must be given
  int64_t expert_inner = 0;        // moe_intermediate_size
  int64_t shared_experts = 1;      // n_shared_experts
  double expert_scale = 1;         // routed_scaling_factor
};

// All but how experts are chosen and whether neighbouring channels turn. Throws FieldError.
DecoderConfig read_deepseek_fields(ConfigFields& fields, const DeepseekDefaults& defaults);

// Rotary positions of the shared part of heads, and the scale of the scores, which yarn's
// mscale_all_dim raises. Throws FieldError.
void read_latent_rotary(ConfigFields& fields, bool interleaved, DecoderConfig& config);

// n_group and topk_group; router.experts, chosen and best_of_group are known. Throws FieldError.
void read_expert_groups(ConfigFields& fields, int64_t groups, int64_t chosen_groups,
                        DecoderConfig& config);

WeightNames deepseek_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
