// What the two families of DINOv2 share.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Family::defaults.
inline const nlohmann::json kDinov2Defaults{
    {"hidden_size", 768}, {"num_hidden_layers", 12}, {"num_attention_heads", 12}};

// Reads all fields of config.json. prefix: the tokens before the patches. patch: size of a patch
// if patch_size is missing. Throws FieldError.
TransformerConfig read_dinov2_fields(ConfigFields& fields, std::vector<nn::PrefixTokens> prefix,
                                     int64_t patch);

// Family::read_scores: one head for the class token and one for the mean of the patches.
void read_dinov2_scores(ConfigFields& fields, TransformerConfig& config);

// Returns the names of the weights of a model without registers. body: Family::body without dot.
WeightNames dinov2_names(std::string_view body, const TransformerConfig& config);

}  // namespace colossal::models
