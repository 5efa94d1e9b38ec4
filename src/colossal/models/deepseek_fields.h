// Reads the fields of config.json, and has the weight names, that DeepSeek-V2 and DeepSeek-V3
// share: decoders with multi-head latent attention and experts.
#pragma once

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/rotary_fields.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Defaults of fields, as in Hugging Face transformers, that differ between DeepSeek-V2 and V3. A
// comment names the field of config.json where its name differs.
struct DeepseekDefaults {
  int64_t positions = 4096;        // max_position_embeddings
  int64_t first_dense_layers = 0;  // first_k_dense_replace
  int64_t experts = 0;             // n_routed_experts
  int64_t chosen = 0;              // num_experts_per_tok; 0: required field
  int64_t expert_inner = 0;        // moe_intermediate_size
  int64_t shared_experts = 1;      // n_shared_experts
  double expert_scale = 1;         // routed_scaling_factor
};

// Reads the fields that V2 and V3 share. The caller must also call the next two functions, and read
// topk_method, scoring_func and norm_topk_prob. Throws FieldError.
DecoderConfig read_deepseek_fields(ConfigFields& fields, const DeepseekDefaults& defaults);

// Reads the rotary embedding of the first qk_rope_head_dim channels of each head. Also sets the
// scale of the attention scores, if YaRN's mscale_all_dim changes it. interleaved: whether pairs of
// neighbouring channels are rotated (RotaryOptions::interleaved). Call this after
// read_deepseek_fields(). Throws FieldError.
void read_latent_rotary(ConfigFields& fields, bool interleaved, DecoderConfig& config);

// Reads n_group and topk_group into config.router. groups, chosen_groups: the defaults of these
// fields. config.router.experts, chosen and best_of_group (nn/router.h) must be set before. Throws
// FieldError.
void read_expert_groups(ConfigFields& fields, int64_t groups, int64_t chosen_groups,
                        DecoderConfig& config);

// Returns the names of the weights in the files of both families.
WeightNames deepseek_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
