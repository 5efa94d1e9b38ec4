// Reads what the families T5 and mT5 share.
#pragma once

#include "colossal/models/config_fields.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Reads all fields but scale_decoder_outputs. feed_forward: the default of feed_forward_proj.
TransformerConfig read_t5_fields(ConfigFields& fields, const char* feed_forward);

WeightNames t5_weight_names(const TransformerConfig& config);

}  // namespace colossal::models
