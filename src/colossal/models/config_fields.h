// Reads and validates fields of a Hugging Face config.json. ConfigFields also records which fields
// were read, so that fields that nobody reads can be reported. Model families use this to make a
// TransformerConfig.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::models {

// Upper limits of the sizes in a config.json. A file with a larger size is broken or malicious. The
// inner features of an MLP have the limit 4 * kMaximumWidth.
inline constexpr int64_t kMaximumVocabulary = int64_t{1} << 24;  // tokens
inline constexpr int64_t kMaximumPositions = int64_t{1} << 24;   // sequence length in tokens
inline constexpr int64_t kMaximumWidth = int64_t{1} << 20;       // features of a layer
inline constexpr int64_t kMaximumLayers = 4096;

// Thrown for an invalid field, or an invalid combination of fields. what() is "config.json: GIVEN:
// WHY", or "config.json: WHY" if `given` is empty. If a run overrides one of the fields,
// models::resolve_model() throws a ConfigError that names the override instead.
class FieldError : public ConfigError {
 public:
  // fields: names of the fields concerned. given: for a single field, its name and value, such as
  // "n_layer = 0"; else empty. why: what would be valid, or which values are inconsistent.
  FieldError(std::vector<std::string> fields, const std::string& given, const std::string& why);

  const std::vector<std::string>& fields() const { return fields_; }
  const std::string& why() const { return why_; }
  // Returns this error about fields of an object that is itself in the field `name`.
  FieldError inside(const std::string& name) const;

 private:
  std::vector<std::string> fields_;
  std::string given_, why_;
};

// The reading functions return the value of the field `name`, and record the value in resolved().
// If the field is missing or null, they return `fallback`; functions without this parameter say
// what they return then. A field that is missing, but is among the family's defaults, counts as
// present with that value. They throw FieldError, with the field, its value and what would be
// valid, if the value has another type, or is out of range.
class ConfigFields {
 public:
  // json: an object, which must outlive this. defaults: values of missing fields.
  explicit ConfigFields(const nlohmann::json& json,
                        nlohmann::json defaults = nlohmann::json::object())
      : json_(json), defaults_(std::move(defaults)) {}

  // Returns whether the field is present and not null. Does not count as reading the field.
  bool has(const std::string& name) const { return find(name) != nullptr; }
  // Returns whether the field is a list. Does not count as reading the field.
  bool is_list(const std::string& name) const;
  // Read an integer from 1 to `maximum`. required_size() throws FieldError if the field is missing
  // or null.
  int64_t required_size(const std::string& name, int64_t maximum);
  int64_t size(const std::string& name, int64_t fallback, int64_t maximum);
  // Reads an integer from 0 to `maximum`.
  int64_t count(const std::string& name, int64_t fallback, int64_t maximum);
  // Reads an integer from 1 to `maximum`; returns 0 if the field is missing or null.
  int64_t size_or_none(const std::string& name, int64_t maximum);
  // Reads a number from `minimum` to `maximum`.
  double number(const std::string& name, double fallback, double minimum, double maximum);
  // Like number(), but returns 0 if the field is missing or null.
  double number_or_none(const std::string& name, double minimum, double maximum);
  // Reads a dropout probability, from 0 to 0.999, and adds the field's name to dropouts().
  double dropout(const std::string& name, double fallback);
  bool flag(const std::string& name, bool fallback);
  std::string text(const std::string& name, const std::string& fallback);
  // Reads a list of strings, one for each layer. If the field is missing or null, returns an empty
  // list and records nothing. Throws FieldError if the length is not `layers` or a string is not in
  // `allowed`.
  std::vector<std::string> text_of_layers(const std::string& name, int64_t layers,
                                          const std::vector<std::string>& allowed);
  // Reads a list of `count` numbers from `minimum` to `maximum`. Throws FieldError if the field is
  // missing or null.
  std::vector<double> numbers(const std::string& name, int64_t count, double minimum,
                              double maximum);
  // Reads a JSON object; returns JSON null if the field is missing or null.
  nlohmann::json object(const std::string& name);
  // Reads a JSON array; returns an empty array if the field is missing or null.
  nlohmann::json list(const std::string& name);
  // Throws FieldError if the field has a value other than `supported`. A missing or null field is
  // allowed. Records `supported` in resolved().
  void require(const std::string& name, const nlohmann::json& supported);
  // Like require(), but records nothing if the field is missing or null.
  void require_if_given(const std::string& name, const nlohmann::json& supported);
  // Reads the fields of the object in the field `name`, of which a missing one is empty, by
  // read(ConfigFields&), and returns its result. defaults: values of the object's missing fields.
  // The other fields of the object stay in resolved().
  template <typename Read>
  auto inside(const std::string& name, const nlohmann::json& defaults, const Read& read);
  // Records `value` in resolved() in the place of the field's own, which does not affect what the
  // family computes.
  void replace(const std::string& name, const nlohmann::json& value) { note(name, value); }
  // Declares that the field does not affect what the family computes: unknown_fields() leaves it
  // out.
  void ignore(const std::string& name) { ignored_.insert(name); }

  // The object from which the fields are read.
  const nlohmann::json& json() const { return json_; }
  // The fields that were read, with their values or fallbacks. A missing field that size_or_none(),
  // number_or_none() or object() read has the value null; one that text_of_layers() read is left
  // out.
  const nlohmann::json& resolved() const { return resolved_; }
  // Names of the fields that dropout() has read, with the names of the objects that they are inside
  // ("vision_config.attention_dropout"): train.dropout of a run overrides these.
  const std::vector<std::string>& dropouts() const { return dropouts_; }
  // Names of the objects that inside() has read: the configurations of a model's parts.
  const std::set<std::string>& parts() const { return parts_; }
  // Returns the fields of json() that are not in resolved(), with their values, including those
  // passed to ignore(). Call this after all reads.
  nlohmann::json unread_fields() const;
  // Adds a name to those that unknown_fields() returns, such as "rope_scaling.finetuned".
  void add_unknown(const std::string& name) { unknown_.push_back(name); }
  // Returns the names of those unread_fields() of which nothing is known: all but fields that are
  // null or passed to ignore(), and known settings of training, of generation, or of the library
  // that wrote the file.
  std::vector<std::string> unknown_fields() const;

 private:
  // Returns the field's value, or its default; null if it has none or is JSON null.
  const nlohmann::json* find(const std::string& name) const;
  void note(const std::string& name, const nlohmann::json& value) { resolved_[name] = value; }
  // Takes over what was read of the object in the field `name`.
  void take(const std::string& name, const ConfigFields& inner);

  const nlohmann::json& json_;
  nlohmann::json defaults_;
  nlohmann::json resolved_ = nlohmann::json::object();
  std::set<std::string> ignored_, parts_;
  std::vector<std::string> dropouts_, unknown_;
};

template <typename Read>
auto ConfigFields::inside(const std::string& name, const nlohmann::json& defaults,
                          const Read& read) {
  const nlohmann::json given = object(name);
  const nlohmann::json json = given.is_null() ? nlohmann::json::object() : given;
  ConfigFields inner(json, defaults);
  try {
    auto result = read(inner);
    take(name, inner);
    return result;
  } catch (const FieldError& error) {
    throw error.inside(name);
  }
}

}  // namespace colossal::models
