// A family of models as data: how its config.json is read, where its weights lie in files, and its
// published sizes. docs/extending.md walks through one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

struct Preset {
  std::string name;
  nlohmann::json fields;  // of config.json
};

struct Family {
  std::string model_type;    // of config.json
  std::string architecture;  // the class of transformers that opens a folder
  // Rewrites a config.json so that every setting is said in one way only, which a run may override.
  // Null: there is one way.
  void (*simplify)(nlohmann::json& config) = nullptr;
  // Reads every field that shapes the computation. Throws FieldError.
  DecoderConfig (*read)(ConfigFields& fields) = nullptr;
  WeightNames (*weights)(const DecoderConfig& config) = nullptr;
  std::vector<Preset> presets;
  // The model_type of a config.json that describes images besides, and this family's model in
  // text_config. Of such a folder the text model alone is read. Null: there is none.
  const char* with_images = nullptr;
};

// Every family that there is.
const std::vector<Family>& families();

}  // namespace colossal::models
