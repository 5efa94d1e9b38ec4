#include "colossal/models/nearest_field.h"

#include <algorithm>

#include "colossal/base/nearest.h"

namespace colossal::models {
namespace {

// Names that families have for one setting.
const std::vector<std::vector<std::string>> kNamesOfSettings{
    {"hidden_size", "n_embd", "d_model", "dim", "n_embed"},
    {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"},
    {"num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"},
    {"num_key_value_heads", "num_kv_heads", "n_head_kv"},
    {"head_dim", "d_kv"},
    {"intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim", "ffn_hidden_size",
     "encoder_ffn_dim"},
    {"max_position_embeddings", "n_positions", "seq_length", "n_ctx"},
    {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps"},
    {"hidden_act", "activation_function", "hidden_activation", "activation", "feed_forward_proj"},
    {"rope_theta", "rotary_emb_base", "global_rope_theta"},
    {"partial_rotary_factor", "rotary_pct", "rotary_dim"},
    {"rope_scaling", "rope_parameters"},
    {"num_experts", "num_local_experts", "n_routed_experts"},
    {"initializer_range", "init_std", "initializer_factor"},
    {"attention_dropout", "attn_pdrop", "attention_probs_dropout_prob"},
    {"hidden_dropout", "resid_pdrop", "hidden_dropout_prob", "dropout", "dropout_rate"}};

}  // namespace

std::string nearest_field(const std::string& field, const std::vector<std::string>& known) {
  for (const std::vector<std::string>& names : kNamesOfSettings) {
    if (std::ranges::find(names, field) == names.end()) continue;
    for (const std::string& name : names) {
      if (std::ranges::find(known, name) != known.end()) return name;
    }
  }
  return nearest(field, known);
}

}  // namespace colossal::models
