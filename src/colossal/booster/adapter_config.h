// The [adapter] section of a run.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "colossal/booster/run_config.h"
#include "colossal/models/families.h"

namespace colossal {

// Resolves the section for a model without an adapter; nothing for kind = "none". `given_keys` are
// the keys that a user has set. Throws ConfigError for a model without weights, a target that names
// no product, and a folder to resume from that cannot be read or differs from the given keys.
std::optional<models::ModelAdapter> resolve_adapter(const AdapterConfig& config,
                                                    const models::ModelSpecification& model,
                                                    const std::set<std::string>& given_keys);

}  // namespace colossal
