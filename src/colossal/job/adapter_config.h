// Resolves the [adapter] section of a run.toml to the adapter that the run trains: LoRA, or a
// prefix. resolve_job() in job.h calls this.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "colossal/job/run_config.h"
#include "colossal/models/families.h"

namespace colossal {

// Returns the adapter that `config` describes for `model`, or nullopt if config.kind is "none". If
// config.resume_from is not empty, the adapter is the one stored in that folder, and the folder
// determines its layers and settings, except `base` and `dropout`. The caller adds the adapter to
// the model with models::set_adapter(). given_keys: full names of the keys that the user has set,
// such as "adapter.rank". Throws ConfigError if keys contradict each other or do not apply to this
// kind of adapter, if `model` names no folder with weights, if weights that this folder lacks would
// stay frozen at random values, if a target names no layer that can have an adapter, or if the
// folder config.resume_from cannot be read or conflicts with a key that the user has set.
std::optional<models::ModelAdapter> resolve_adapter(const AdapterConfig& config,
                                                    const models::ModelSpecification& model,
                                                    const std::set<std::string>& given_keys);

}  // namespace colossal
