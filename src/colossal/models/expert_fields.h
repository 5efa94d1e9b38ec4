// Config fields and weight names that families with experts share.
#pragma once

#include <cstdint>
#include <string_view>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

struct RouterDefaults {
  const char* experts_field;
  int64_t experts;
  int64_t chosen;  // default of num_experts_per_tok
};
// Reads the number of experts from defaults.experts_field, and num_experts_per_tok. Throws
// FieldError.
nn::RouterOptions read_router(ConfigFields& fields, const RouterDefaults& defaults);

// Returns the load-balancing loss, which transformers adds if output_router_logits is true; else
// none. coefficient: default of router_aux_loss_coef. Throws FieldError.
nn::RouterLosses read_router_losses(ConfigFields& fields, double coefficient);

// Reads which layers have experts: every decoder_sparse_step-th layer that is not in
// mlp_only_layers. Throws FieldError.
void read_sparse_layers(ConfigFields& fields, DecoderConfig& config);

// Names of layers in files, relative to the block; "{}" stands for the expert's number.
struct ExpertNames {
  std::string_view router, gate, up, down;
};
// The names that most families use.
inline constexpr ExpertNames kMlpExperts{.router = "mlp.gate",
                                         .gate = "mlp.experts.{}.gate_proj",
                                         .up = "mlp.experts.{}.up_proj",
                                         .down = "mlp.experts.{}.down_proj"};
void name_experts(WeightNames& names, const DecoderConfig& config, const ExpertNames& experts);

}  // namespace colossal::models
