// Reads and checks fields of a config.json.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace colossal::models {

// Beyond these a config.json is broken or hostile, not large.
inline constexpr int64_t kMaximumVocabulary = int64_t{1} << 24;
inline constexpr int64_t kMaximumPositions = int64_t{1} << 24;
inline constexpr int64_t kMaximumWidth = int64_t{1} << 20;
inline constexpr int64_t kMaximumLayers = 4096;

// Every function throws ConfigError that names the field, what was found and what would do.
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
