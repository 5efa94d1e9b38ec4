// Reads the rotary embedding settings of config.json.
#pragma once

#include <cstdint>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Rewrites the rotary fields of transformers 5 to the form of older versions, which both read and
// whose fields a run can override one by one. transformers 5 has one object, rope_parameters; older
// versions have rope_theta (the base), partial_rotary_factor (the rotated fraction of a head), and
// rope_scaling (the rest).
void use_older_rotary_fields(nlohmann::json& config);

// The defaults of a family.
struct RotaryDefaults {
  double base = 10000;
  double partial = 1;              // fraction of a head's channels that is rotated
  bool interleaved = false;        // pairs of channels: (2i, 2i + 1), not (i, i + half)
  int64_t original_positions = 0;  // from a field outside of rope_scaling; 0: none
  const char* base_field = "rope_theta";
  const char* partial_field = "partial_rotary_factor";
};

// Reads the older form. config.head_size and config.positions must be set before. Throws
// FieldError.
ops::RotaryOptions read_rotary(ConfigFields& fields, const DecoderConfig& config,
                               const RotaryDefaults& defaults);

// Reads a rope_scaling object, which may be null, and takes the base from `defaults`. Throws
// FieldError.
ops::RotaryOptions read_rotary_scaling(const nlohmann::json& scaling, const DecoderConfig& config,
                                       const RotaryDefaults& defaults);

}  // namespace colossal::models
