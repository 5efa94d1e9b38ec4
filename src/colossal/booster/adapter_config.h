// Resolves the [adapter] section of a run.toml to the adapter that the run trains: LoRA, or a
// prefix. resolve_job() in job.h calls this.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "colossal/booster/run_config.h"
#include "colossal/models/families.h"

namespace colossal {

// Returns the adapter that `config` describes for `model`, or nullopt if config.kind is "none". The
// caller adds the adapter to the model with models::set_adapter(). given_keys: full names of the
// keys that the user has set, such as "adapter.rank". Throws ConfigError if keys contradict each
// other or do not apply to this kind of adapter, if the model has no weights, if a target names no
// linear layer, or if the folder config.resume_from cannot be read or contradicts one of
// given_keys.
std::optional<models::ModelAdapter> resolve_adapter(const AdapterConfig& config,
                                                    const models::ModelSpecification& model,
                                                    const std::set<std::string>& given_keys);

}  // namespace colossal
