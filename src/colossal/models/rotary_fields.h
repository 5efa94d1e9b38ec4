// Reads rotary positions from config.json.
#pragma once

#include <cstdint>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Rewrites rotary fields in the older form. transformers 5 has them in one object, rope_parameters;
// before, rope_theta was the base, partial_rotary_factor the rotated share of a head, and
// rope_scaling the rest. Both versions read the older form, and a run may override its fields one
// by one.
void use_older_rotary_fields(nlohmann::json& config);

// Defaults of a family.
struct RotaryDefaults {
  double base = 10000;
  double partial = 1;  // the share of a head that is rotated
  bool interleaved =
      false;  // neighbouring channels are rotated together, not those of the two halves
  int64_t original_positions = 0;  // given elsewhere in config.json; 0: not
  const char* base_field = "rope_theta";
  const char* partial_field = "partial_rotary_factor";
};

// Reads the older form. config.head_size and config.positions must be set. Throws FieldError.
ops::RotaryOptions read_rotary(ConfigFields& fields, const DecoderConfig& config,
                               const RotaryDefaults& defaults);

// Reads a rope_scaling object, or null, alone; the base is defaults.base. Throws FieldError.
ops::RotaryOptions read_rotary_scaling(const nlohmann::json& scaling, const DecoderConfig& config,
                                       const RotaryDefaults& defaults);

}  // namespace colossal::models
