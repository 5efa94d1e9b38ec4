// Rotary positions as config.json says them.
#pragma once

#include <cstdint>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// transformers 5 says base and scaling in one object, rope_parameters; before, the base was
// rope_theta, the share of a head that turns partial_rotary_factor, the rest rope_scaling. The same
// in the older way, which both versions read and whose fields a run may override one by one.
void use_older_rotary_fields(nlohmann::json& config);

// What a family does otherwise.
struct RotaryDefaults {
  double base = 10000;
  double partial = 1;              // share of a head that turns
  bool interleaved = false;        // neighbouring channels turn, not those of the two halves
  int64_t original_positions = 0;  // given elsewhere in config.json; 0: not
  const char* base_field = "rope_theta";
  const char* partial_field = "partial_rotary_factor";
};

// Of such a config; head_size and positions of `config` are known. Throws FieldError.
ops::RotaryOptions read_rotary(ConfigFields& fields, const DecoderConfig& config,
                               const RotaryDefaults& defaults);

// From a rope_scaling object, or null, alone: defaults.base is the base. Throws FieldError.
ops::RotaryOptions read_rotary_scaling(const nlohmann::json& scaling, const DecoderConfig& config,
                                       const RotaryDefaults& defaults);

}  // namespace colossal::models
