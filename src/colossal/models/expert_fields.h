// Reads the fields of config.json, and has the weight names, that families with experts share.
#pragma once

#include <cstdint>
#include <string_view>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

struct RouterDefaults {
  const char* experts_field;  // name of the field with the number of experts
  int64_t experts;            // default of that field
  int64_t chosen;             // default of num_experts_per_tok
};
// Reads RouterOptions::experts from the field defaults.experts_field, and `chosen` from
// num_experts_per_tok. All other options of the result have their defaults. Throws FieldError.
nn::RouterOptions read_router(ConfigFields& fields, const RouterDefaults& defaults);

// Returns the load-balancing loss of transformers if output_router_logits is true, else no loss.
// coefficient: default of router_aux_loss_coef. Throws FieldError.
nn::RouterLosses read_router_losses(ConfigFields& fields, double coefficient);

// Sets config.layers_with_experts from decoder_sparse_step and mlp_only_layers: layer i, from 0,
// has experts if decoder_sparse_step divides i + 1 and i is not in mlp_only_layers. config.layers
// must be set before. Throws FieldError.
void read_sparse_layers(ConfigFields& fields, DecoderConfig& config);

// Names of a block's router and experts in files, without the block's name. In gate, up and down,
// "{}" stands for the expert's number.
struct ExpertNames {
  std::string_view router, gate, up, down;
};
// The names that most families use.
inline constexpr ExpertNames kMlpExperts{.router = "mlp.gate",
                                         .gate = "mlp.experts.{}.gate_proj",
                                         .up = "mlp.experts.{}.up_proj",
                                         .down = "mlp.experts.{}.down_proj"};
// Adds the entries of the router and of the experts to `names`.
void name_experts(WeightNames& names, const DecoderConfig& config, const ExpertNames& experts);

}  // namespace colossal::models
