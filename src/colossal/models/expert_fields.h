// Reads fields, and names weights, that families with experts share.
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
  int64_t chosen;  // num_experts_per_tok
};
// Reads how many experts there are and how many a token goes to. Throws FieldError.
nn::RouterOptions read_router(ConfigFields& fields, const RouterDefaults& defaults);

// The loss that transformers adds where output_router_logits is true.
nn::RouterLosses read_router_losses(ConfigFields& fields, double coefficient);

// Which layers have experts: those that mlp_only_layers does not name, and of these each
// decoder_sparse_step-th. Throws FieldError.
void read_sparse_layers(ConfigFields& fields, DecoderConfig& config);

// Names of layers in a file's block; "{}" stands for an expert's number.
struct ExpertNames {
  std::string_view router, gate, up, down;
};
// As most families have them: "mlp.gate" is the router.
inline constexpr ExpertNames kMlpExperts{.router = "mlp.gate",
                                         .gate = "mlp.experts.{}.gate_proj",
                                         .up = "mlp.experts.{}.up_proj",
                                         .down = "mlp.experts.{}.down_proj"};
void name_experts(WeightNames& names, const DecoderConfig& config, const ExpertNames& experts);

}  // namespace colossal::models
