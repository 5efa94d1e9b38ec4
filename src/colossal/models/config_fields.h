// Reads and checks fields of a config.json, and remembers which it read and their values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
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

// Every function throws FieldError that names the field, what was found and what would do. A field
// that is absent or null has the value `fallback`.
class ConfigFields {
 public:
  explicit ConfigFields(const nlohmann::json& json) : json_(json) {}

  bool has(const std::string& name) const { return find(name) != nullptr; }  // and not null
  int64_t required_size(const std::string& name, int64_t maximum);
  int64_t size(const std::string& name, int64_t fallback, int64_t maximum);
  // A whole number from 0.
  int64_t count(const std::string& name, int64_t fallback, int64_t maximum);
  // 0 where it is absent or null.
  int64_t size_or_none(const std::string& name, int64_t maximum);
  double number(const std::string& name, double fallback, double minimum, double maximum);
  // A number, or 0 where it is absent or null.
  double number_or_none(const std::string& name, double minimum, double maximum);
  // A dropout probability; a run's train.dropout replaces it.
  double dropout(const std::string& name, double fallback);
  bool flag(const std::string& name, bool fallback);
  std::string text(const std::string& name, const std::string& fallback);
  // Texts, one for each layer; empty where the field is absent or null. Throws FieldError for
  // another number of them or for one that is not among `allowed`.
  std::vector<std::string> text_of_layers(const std::string& name, int64_t layers,
                                          const std::vector<std::string>& allowed);
  // A list of `count` numbers. Throws FieldError where it is absent.
  std::vector<double> numbers(const std::string& name, int64_t count, double minimum,
                              double maximum);
  // An object as it stands; null where it is absent.
  nlohmann::json object(const std::string& name);
  // A list as it stands; an empty one where it is absent or null.
  nlohmann::json list(const std::string& name);
  // Throws FieldError if the field is there with another value than the supported one.
  void require(const std::string& name, const nlohmann::json& supported);
  // Says that the field changes no computation: take_others() returns it.
  void ignore(const std::string& name) { ignored_.insert(name); }

  const nlohmann::json& json() const { return json_; }
  // Every field that was read, with its value or fallback.
  const nlohmann::json& resolved() const { return resolved_; }
  const std::vector<std::string>& dropouts() const { return dropouts_; }
  // Throws FieldError naming a field that was not read and may change what the model computes.
  // Returns the other fields: of training, of generation, of the library that wrote the file.
  nlohmann::json take_others() const;

 private:
  const nlohmann::json* find(const std::string& name) const;
  void note(const std::string& name, const nlohmann::json& value) { resolved_[name] = value; }

  const nlohmann::json& json_;
  nlohmann::json resolved_ = nlohmann::json::object();
  std::set<std::string> ignored_;
  std::vector<std::string> dropouts_;
};

}  // namespace colossal::models
