// Reads and checks fields of a config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::models {

// Beyond these a config.json is broken or hostile, not large.
inline constexpr int64_t kMaximumVocabulary = int64_t{1} << 24;
inline constexpr int64_t kMaximumPositions = int64_t{1} << 24;
inline constexpr int64_t kMaximumWidth = int64_t{1} << 20;
inline constexpr int64_t kMaximumLayers = 4096;

// A field that is wrong, or several that do not go together. what() names config.json; a run that
// overrides a field names itself instead (models::resolve_model).
class FieldError : public ConfigError {
 public:
  // given: "n_layer = 0", of a single field. why: what would be right, or what does not go
  // together.
  FieldError(std::vector<std::string> fields, const std::string& given, const std::string& why);

  const std::vector<std::string>& fields() const { return fields_; }
  const std::string& why() const { return why_; }

 private:
  std::vector<std::string> fields_;
  std::string why_;
};

// Every function throws FieldError that names the field, what was found and what would do.
class ConfigFields {
 public:
  explicit ConfigFields(const nlohmann::json& json) : json_(json) {}

  bool has(const std::string& name) const { return find(name) != nullptr; }  // and not null
  int64_t required_size(const std::string& name, int64_t maximum) const;
  // `fallback` where the field is absent or null.
  int64_t optional_size(const std::string& name, int64_t fallback, int64_t maximum) const;
  double number(const std::string& name, double fallback, double minimum, double maximum) const;
  bool flag(const std::string& name, bool fallback) const;
  std::string text(const std::string& name, const std::string& fallback) const;
  // For settings of which only some values are computed here.
  void require(const std::string& name, const nlohmann::json& supported) const;

 private:
  const nlohmann::json* find(const std::string& name) const;
  const nlohmann::json& json_;
};

}  // namespace colossal::models
