// Finds the field of a config.json that a user probably meant.
#pragma once

#include <string>
#include <vector>

namespace colossal::models {

// Returns the one of `known` that other families call `field`, such as hidden_size for n_embd, or
// the one whose name is nearest (base/nearest.h). known: names of fields, not empty.
std::string nearest_field(const std::string& field, const std::vector<std::string>& known);

}  // namespace colossal::models
