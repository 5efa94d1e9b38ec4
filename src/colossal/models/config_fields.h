// Reads and validates fields of a config.json, and records the fields that were read and their
// values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::models {

// Upper limits of sizes: a config.json with larger ones is broken or malicious.
inline constexpr int64_t kMaximumVocabulary = int64_t{1} << 24;
inline constexpr int64_t kMaximumPositions = int64_t{1} << 24;
inline constexpr int64_t kMaximumWidth = int64_t{1} << 20;
inline constexpr int64_t kMaximumLayers = 4096;

// An invalid field, or an invalid combination of fields. what() names config.json; if a run
// overrides the field, models::resolve_model names the override instead.
class FieldError : public ConfigError {
 public:
  // given: for a single field, its name and value, "n_layer = 0"; else empty. why: what would be
  // valid, or which values are inconsistent.
  FieldError(std::vector<std::string> fields, const std::string& given, const std::string& why);

  const std::vector<std::string>& fields() const { return fields_; }
  const std::string& why() const { return why_; }

 private:
  std::vector<std::string> fields_;
  std::string why_;
};

// Reading functions throw FieldError naming the field, its value and what would be valid. For a
// missing or null field they return `fallback`.
class ConfigFields {
 public:
  explicit ConfigFields(const nlohmann::json& json) : json_(json) {}

  // Returns true if present and not null.
  bool has(const std::string& name) const { return find(name) != nullptr; }
  // Read an integer from 1 to `maximum`. required_size() throws FieldError if the field is missing.
  int64_t required_size(const std::string& name, int64_t maximum);
  int64_t size(const std::string& name, int64_t fallback, int64_t maximum);
  // Reads an integer from 0 to `maximum`.
  int64_t count(const std::string& name, int64_t fallback, int64_t maximum);
  // Like size(); 0 if missing or null.
  int64_t size_or_none(const std::string& name, int64_t maximum);
  double number(const std::string& name, double fallback, double minimum, double maximum);
  // Like number(); 0 if missing or null.
  double number_or_none(const std::string& name, double minimum, double maximum);
  // Reads a dropout probability. Its field is listed in dropouts(), so that train.dropout of a run
  // can override it.
  double dropout(const std::string& name, double fallback);
  bool flag(const std::string& name, bool fallback);
  std::string text(const std::string& name, const std::string& fallback);
  // Reads a list with one string per layer; empty if missing or null. Throws FieldError if the
  // length is not `layers` or a string is not in `allowed`.
  std::vector<std::string> text_of_layers(const std::string& name, int64_t layers,
                                          const std::vector<std::string>& allowed);
  // Reads a list of `count` numbers; the field is required.
  std::vector<double> numbers(const std::string& name, int64_t count, double minimum,
                              double maximum);
  // Returns an object unchanged; JSON null if missing or null.
  nlohmann::json object(const std::string& name);
  // Returns a JSON array unchanged; empty if missing or null.
  nlohmann::json list(const std::string& name);
  // Throws FieldError if the field is present with a value other than `supported`.
  void require(const std::string& name, const nlohmann::json& supported);
  // Declares that the field does not affect the computation; take_others() returns it.
  void ignore(const std::string& name) { ignored_.insert(name); }

  const nlohmann::json& json() const { return json_; }
  // All fields that were read, with their values or fallbacks.
  const nlohmann::json& resolved() const { return resolved_; }
  const std::vector<std::string>& dropouts() const { return dropouts_; }
  // Returns the fields that were not read: settings of training, of generation, or of the library
  // that wrote the file. Call it after all reads. Throws FieldError naming a field that was not
  // read and that may affect the computation.
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
