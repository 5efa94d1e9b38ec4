// The [adapter] section of a run.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "colossal/booster/run_config.h"
#include "colossal/models/families.h"

namespace colossal {

// What the section asks for, of a model without an adapter; nothing for kind = "none". given_keys:
// those that a user has set. Throws ConfigError for a model without weights, a target that names no
// product, and a folder to resume from that is not read or not as the given keys say.
std::optional<models::ModelAdapter> resolve_adapter(const AdapterConfig& config,
                                                    const models::ModelSpecification& model,
                                                    const std::set<std::string>& given_keys);

}  // namespace colossal
