// Reads the config.json of RoBERTa and of models that differ from it only in their model_type and
// vocabulary, and names their weights.
#pragma once

#include "colossal/models/config_fields.h"
#include "colossal/models/transformer_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Read all fields, and those of the head that classifies texts. Throw FieldError.
TransformerConfig read_roberta_fields(ConfigFields& fields);
void read_roberta_scores(ConfigFields& fields, TransformerConfig& config);

WeightNames roberta_weight_names(const TransformerConfig& config);

}  // namespace colossal::models
