// Reads the settings of rotary position embeddings in config.json, for all families that have them.
#pragma once

#include <cstdint>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Rewrites the rotary fields of transformers 5, the object rope_parameters, to the fields of older
// versions: rope_theta (the base), partial_rotary_factor (the rotated fraction of a head), and
// rope_scaling (the other settings). All versions of transformers read the older fields, and a run
// can override them one by one. Call this before read_rotary().
void use_older_rotary_fields(nlohmann::json& config);

// What differs between families: the defaults of missing fields, and some names of fields.
struct RotaryDefaults {
  double base = 10000;       // theta
  double partial = 1;        // fraction of a head's channels that is rotated
  bool interleaved = false;  // whether pairs are neighbouring channels: RotaryOptions::interleaved
  // RotaryOptions::original_positions, if the family reads them from a field outside of
  // rope_scaling; 0: from rope_scaling.
  int64_t original_positions = 0;
  const char* base_field = "rope_theta";
  const char* partial_field = "partial_rotary_factor";
};

// Reads the base, the rotated fraction and rope_scaling, in the older form. config.head_size and
// config.positions must be set before. Throws FieldError.
ops::RotaryOptions read_rotary(ConfigFields& fields, const DecoderConfig& config,
                               const RotaryDefaults& defaults);

// Reads a rope_scaling object, which may be null (no scaling). Takes the base and the rotated
// fraction from `defaults`. config.head_size and config.positions must be set before. Throws
// FieldError.
ops::RotaryOptions read_rotary_scaling(const nlohmann::json& scaling, const DecoderConfig& config,
                                       const RotaryDefaults& defaults);

}  // namespace colossal::models
