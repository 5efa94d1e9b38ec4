// Rotary positions as config.json says them.
#pragma once

#include <cstdint>

#include "colossal/models/config_fields.h"
#include "colossal/ops/rotary.h"

namespace colossal::models {

// transformers 5 says base and scaling in one object, rope_parameters; before, the base was
// rope_theta, the rest rope_scaling. The same in the older way, which both versions read and whose
// fields a run may override one by one.
void use_older_rotary_fields(nlohmann::json& config);

// Of such a config. positions: the longest sequence. Throws FieldError.
ops::RotaryOptions read_rotary(ConfigFields& fields, int64_t positions, double default_base);

}  // namespace colossal::models
