// Reads the settings of rotary position embeddings in config.json, for all families that have them.
#pragma once

#include <cstdint>

#include "colossal/models/config_fields.h"
#include "colossal/models/transformer_config.h"

namespace colossal::models {

// Replaces the object rope_parameters of transformers 5 by the fields of older versions: rope_theta
// (the base), partial_rotary_factor (the rotated fraction of a head), and rope_scaling (an object
// with the other settings; null if there is no scaling). If `config` has a rope_scaling, this
// replaces all of rope_parameters, as in transformers: the base and the fraction are then those
// within rope_scaling or the fields of config.json. All versions of transformers read the older
// fields, and a run can override them one by one. config: the contents of config.json. Call this
// before read_rotary().
void use_older_rotary_fields(nlohmann::json& config);

// What differs between families: the defaults of missing fields, and some names of fields.
struct RotaryDefaults {
  double base = 10000;       // theta
  double partial = 1;        // fraction of a head's channels that is rotated
  bool interleaved = false;  // whether pairs are neighbouring channels: RotaryOptions::interleaved
  // RotaryOptions::original_positions, if the family has them outside of rope_scaling; the field in
  // rope_scaling then has no effect. 0: read_rotary() takes them from rope_scaling.
  int64_t original_positions = 0;
  const char* base_field = "rope_theta";  // name of the field of the base
  // Name of the field of the fraction; null: transformers rotates all channels of this family.
  const char* partial_field = nullptr;
};

// Reads the base, the rotated fraction and rope_scaling from `fields`: the fields of config.json in
// the older form (see use_older_rotary_fields()). config.head_size and config.positions must be set
// before. Throws FieldError if a field is invalid.
ops::RotaryOptions read_rotary(ConfigFields& fields, const TransformerConfig& config,
                               const RotaryDefaults& defaults);

}  // namespace colossal::models
