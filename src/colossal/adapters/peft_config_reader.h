// Reads adapter_config.json, the configuration file of a PEFT adapter, field by field. A field with
// value null counts as absent. text(), positive(), strings() and pattern() throw ConfigError, which
// names the field, if the value has another type.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace colossal::adapters {

class PeftConfigReader {
 public:
  // Throws IoError if the file cannot be read or is not JSON; ConfigError if it is not an object.
  explicit PeftConfigReader(std::filesystem::path file);

  // Returns a string field; empty if the field is absent.
  std::string text(const char* field) const;
  // Throws ConfigError unless the field is absent or equals `value`.
  void require(const char* field, const char* value) const;
  // Throws ConfigError unless the field is absent, false, an empty list or an empty object.
  void require_nothing(const char* field) const;
  // Returns a number above 0; `absent` if the field is absent. Throws ConfigError for other values,
  // and for fractions if Number is an integer type.
  template <typename Number>
  Number positive(const char* field, Number absent) const {
    const Json found = get(field);
    if (found.is_null()) return absent;
    const bool fits = std::is_integral_v<Number> ? found.is_number_integer() : found.is_number();
    if (!fits || !(found > 0)) refuse(field, "must be a number above 0");
    return found.get<Number>();
  }
  // Returns whether the field is true; false if the field is absent or has any other value.
  bool flag(const char* field) const { return get(field) == true; }
  // Returns whether the field is present and false.
  bool is_false(const char* field) const { return get(field) == false; }
  // Returns a list of strings; empty if the field is absent.
  std::vector<std::string> strings(const char* field) const;
  // For a field whose value is an object of numbers, such as rank_pattern and alpha_pattern.
  // Returns the object's members as pairs of name and number, in the order of the file; empty if
  // the field is absent. Throws ConfigError unless each number is one that positive() accepts.
  template <typename Number>
  std::vector<std::pair<std::string, Number>> pattern(const char* field) const {
    const Json found = get(field);
    if (found.is_null()) return {};
    if (!found.is_object()) refuse(field, "must be an object of numbers above 0");
    std::vector<std::pair<std::string, Number>> entries;
    for (const auto& [name, value] : found.items()) {
      const bool fits = std::is_integral_v<Number> ? value.is_number_integer() : value.is_number();
      if (!fits || !(value > 0)) refuse(field, "must be an object of numbers above 0");
      entries.emplace_back(name, value.template get<Number>());
    }
    return entries;
  }
  // Throws ConfigError with the field, its value and `why`: what is wrong with the value.
  [[noreturn]] void refuse(const char* field, const std::string& why) const;

 private:
  using Json = nlohmann::ordered_json;

  // Returns the value of a field; null if the field is absent.
  Json get(const char* field) const { return json_.value(field, Json()); }

  std::filesystem::path file_;
  Json json_;
};

}  // namespace colossal::adapters
