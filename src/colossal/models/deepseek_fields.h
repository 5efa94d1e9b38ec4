// Config fields and weight names that the DeepSeek decoders with latent attention share.
#pragma once

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/rotary_fields.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Defaults, in the Hugging Face library `transformers`, that differ between DeepSeek-V2 and V3.
struct DeepseekDefaults {
  int64_t positions = 4096;
  int64_t first_dense_layers = 0;  // first_k_dense_replace
  int64_t experts = 0;             // n_routed_experts
  int64_t chosen = 0;              // num_experts_per_tok; 0: required field
  int64_t expert_inner = 0;        // moe_intermediate_size
  int64_t shared_experts = 1;      // n_shared_experts
  double expert_scale = 1;         // routed_scaling_factor
};

// Reads the fields that V2 and V3 share, except those of the functions below. The caller also reads
// topk_method, scoring_func and norm_topk_prob. Throws FieldError.
DecoderConfig read_deepseek_fields(ConfigFields& fields, const DeepseekDefaults& defaults);

// Reads the rotary embedding of the rotary channels of each head, and sets the scale of the
// attention scores if YaRN's mscale_all_dim increases it. interleaved: neighbouring channels form
// the rotated pairs. Throws FieldError.
void read_latent_rotary(ConfigFields& fields, bool interleaved, DecoderConfig& config);

// Reads n_group and topk_group, whose defaults are `groups` and `chosen_groups`. router.experts,
// router.chosen and router.best_of_group (see nn/router.h) must be set before. Throws FieldError.
void read_expert_groups(ConfigFields& fields, int64_t groups, int64_t chosen_groups,
                        DecoderConfig& config);

WeightNames deepseek_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
