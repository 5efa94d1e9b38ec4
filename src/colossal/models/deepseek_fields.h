// Reads the fields of config.json, and has the weight names, that DeepSeek-V2 and DeepSeek-V3
// share: decoders with multi-head latent attention and experts.
#pragma once

#include "colossal/models/config_fields.h"
#include "colossal/models/rotary_fields.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// The defaults of fields that config.json may lack, as in Hugging Face transformers. They differ
// between DeepSeek-V2 and V3: each family sets the members for which its default is another one.
// Each family must set `experts` and `expert_inner`, for which 0 is no valid value. The comment of
// a member names the field of config.json.
struct DeepseekDefaults {
  int64_t positions = 4096;        // max_position_embeddings
  int64_t first_dense_layers = 0;  // first_k_dense_replace
  int64_t experts = 0;             // n_routed_experts
  int64_t chosen = 0;              // num_experts_per_tok; 0: no default, the field is required
  int64_t expert_inner = 0;        // moe_intermediate_size
  int64_t shared_experts = 1;      // n_shared_experts
  double expert_scale = 1;         // routed_scaling_factor
};

// Reads the fields that V2 and V3 share. The caller must then call read_latent_rotary(), and read
// topk_method, scoring_func and norm_topk_prob. If the router chooses experts by groups, the caller
// must also call read_expert_groups(); if not, ConfigFields::ignore() for n_group and topk_group.
// Throws FieldError.
TransformerConfig read_deepseek_fields(ConfigFields& fields, const DeepseekDefaults& defaults);

// Reads the rotary embedding, which rotates qk_rope_head_dim channels of each head: the first ones
// in the model, the last ones in the files (latent_queries(), weight_names.h). Also sets the scale
// of the attention scores, if YaRN's mscale_all_dim changes it. interleaved: whether pairs of
// neighbouring channels are rotated (RotaryOptions::interleaved). Call this after
// read_deepseek_fields(). Throws FieldError.
void read_latent_rotary(ConfigFields& fields, bool interleaved, TransformerConfig& config);

// Reads n_group and topk_group into config.router. groups, chosen_groups: the defaults of these
// fields. Before, call read_deepseek_fields() and set config.router.best_of_group (nn/router.h).
// Throws FieldError.
void read_expert_groups(ConfigFields& fields, int64_t groups, int64_t chosen_groups,
                        TransformerConfig& config);

// Returns the names of the weights in the files of both families.
WeightNames deepseek_weight_names(const TransformerConfig& config);

}  // namespace colossal::models
