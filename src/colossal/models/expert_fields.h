// What model families with experts share: how to read their fields of config.json, and the names of
// their weights. The functions that read fields throw FieldError if a value is invalid.
#pragma once

#include <cstdint>
#include <string_view>

#include "colossal/models/config_fields.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

struct RouterDefaults {
  const char* experts_field;  // name of the field with the number of experts
  int64_t experts;            // default of that field
  int64_t chosen;             // default of num_experts_per_tok
};
// Reads RouterOptions::experts from the field defaults.experts_field, and RouterOptions::chosen
// from num_experts_per_tok. All other options of the result have their defaults.
nn::RouterOptions read_router(ConfigFields& fields, const RouterDefaults& defaults);

// Returns the load-balancing loss of transformers if output_router_logits is true, else no loss
// (also if the field is missing). Its coefficient is the field router_aux_loss_coef. coefficient:
// default of this field.
nn::RouterLosses read_router_losses(ConfigFields& fields, double coefficient);

// Sets config.layers_with_experts from decoder_sparse_step and mlp_only_layers: layer i, from 0,
// has experts if decoder_sparse_step (default 1) divides i + 1 and i is not in the list
// mlp_only_layers (default: empty). config.layers must be set before.
void read_sparse_layers(ConfigFields& fields, TransformerConfig& config);

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
// Adds to `names` the entries of a block's router and of its config.router.experts experts.
void name_experts(WeightNames& names, const TransformerConfig& config, const ExpertNames& experts);

}  // namespace colossal::models
