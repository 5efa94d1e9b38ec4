// Resolves the [adapter] section of a run's configuration.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "colossal/booster/run_config.h"
#include "colossal/models/families.h"

namespace colossal {

// Resolves [adapter] for `model`, which has no adapter yet. Returns nullopt if kind = "none".
// given_keys: the keys that the user has set. Throws ConfigError if the keys contradict each other,
// if the model has no weights, if a target names no linear layer, or if the folder of resume_from
// cannot be read or contradicts one of given_keys.
std::optional<models::ModelAdapter> resolve_adapter(const AdapterConfig& config,
                                                    const models::ModelSpecification& model,
                                                    const std::set<std::string>& given_keys);

}  // namespace colossal
