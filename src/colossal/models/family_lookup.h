// Functions that families.cpp and families_tensors.cpp share.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/models/families.h"
#include "colossal/models/family.h"

namespace colossal::models {

// Name in files of the head for values, as in TRL.
inline constexpr const char* kValueHead = "v_head.summary";

// Returns the family with the model_type of a config.json. Throws ConfigError if there is none.
const Family& family_of(const nlohmann::json& config);

// Reads a config.json of the family, the number of scores included.
TransformerConfig read_model(const Family& family, ConfigFields& fields);

// Makes the model's layers, without an adapter.
std::unique_ptr<Model> make_layers(const ModelSpecification& specification, nn::Builder& build);

// Returns the names of the model's parameters, without those of an adapter.
std::vector<std::string> parameter_names(const ModelSpecification& specification);

}  // namespace colossal::models
