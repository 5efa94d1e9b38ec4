#include "colossal/models/rotary_fields.h"

#include <algorithm>
#include <string>
#include <vector>

namespace colossal::models {
namespace {

constexpr double kLargestBase = 1e12;
constexpr double kLargestFactor = 1e6;

nlohmann::json object_of(const nlohmann::json& json, const char* name) {
  return ConfigFields(json).object(name);
}

void refuse_unknown_fields(const nlohmann::json& scaling, const std::string& type) {
  std::vector<std::string> known{"rope_type", "type"};
  if (type == "linear" || type == "llama3") known.push_back("factor");
  if (type == "llama3") {
    known.insert(known.end(),
                 {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
  } else if (type != "default" && type != "linear") {
    throw FieldError({"rope_type"}, fmt::format("rope_type = \"{}\"", type),
                     "expected \"default\", \"linear\" or \"llama3\"");
  }
  for (const auto& [field, value] : scaling.items()) {
    if (std::ranges::find(known, field) == known.end()) {
      throw FieldError({field}, fmt::format("rope_scaling.{} = {}", field, value.dump()),
                       fmt::format("rope_type \"{}\" has no such field; its fields: {}", type,
                                   fmt::join(known, ", ")));
    }
  }
}

void read_llama3(ConfigFields& fields, int64_t positions, ops::RotaryOptions& rotary) {
  rotary.scaling = ops::RotaryOptions::Scaling::llama3;
  rotary.low_frequency_factor = fields.number("low_freq_factor", 1, 1e-3, kLargestFactor);
  rotary.high_frequency_factor = fields.number("high_freq_factor", 4, 1e-3, kLargestFactor);
  rotary.original_positions =
      fields.size("original_max_position_embeddings", positions, kMaximumPositions);
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    throw FieldError({"high_freq_factor", "low_freq_factor"}, "",
                     fmt::format("high_freq_factor = {} is not above low_freq_factor = {}",
                                 rotary.high_frequency_factor, rotary.low_frequency_factor));
  }
}

}  // namespace

void use_older_rotary_fields(nlohmann::json& json) {
  nlohmann::json rotary = object_of(json, "rope_parameters");
  if (rotary.empty()) rotary = object_of(json, "rope_scaling");
  json.erase("rope_parameters");
  for (const char* field : {"rope_theta", "partial_rotary_factor"}) {
    if (rotary.contains(field)) json[field] = rotary[field];
    if (!rotary.is_null()) rotary.erase(field);
  }
  const auto is_default = [&](const char* field) {
    return rotary.contains(field) && rotary[field] == "default";
  };
  const bool none =
      rotary.empty() || (rotary.size() == 1 && (is_default("rope_type") || is_default("type")));
  json["rope_scaling"] = none ? nlohmann::json() : rotary;
}

ops::RotaryOptions read_rotary(ConfigFields& fields, int64_t positions, double default_base) {
  ops::RotaryOptions rotary;
  rotary.base = fields.number("rope_theta", default_base, 1, kLargestBase);
  const nlohmann::json scaling = fields.object("rope_scaling");
  if (scaling.is_null()) return rotary;
  ConfigFields of_scaling(scaling);
  const std::string type = of_scaling.text("rope_type", of_scaling.text("type", "default"));
  refuse_unknown_fields(scaling, type);
  if (type == "default") return rotary;
  rotary.factor = of_scaling.number("factor", 1, 1e-3, kLargestFactor);
  if (type == "llama3") read_llama3(of_scaling, positions, rotary);
  return rotary;
}

}  // namespace colossal::models
