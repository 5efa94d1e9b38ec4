// Reads the config.json of RoBERTa and of models that differ from it only in their model_type and
// vocabulary, and names their weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/models/family.h"

namespace colossal::models {

// Read all fields, and those of the head that classifies texts. Throw FieldError.
TransformerConfig read_roberta_fields(ConfigFields& fields);
void read_roberta_scores(ConfigFields& fields, TransformerConfig& config);

WeightNames roberta_weight_names(const TransformerConfig& config);

// Returns the presets NAME-base and NAME-large. vocabulary: number of tokens of both.
std::vector<Preset> roberta_presets(const std::string& name, int64_t vocabulary);

}  // namespace colossal::models
