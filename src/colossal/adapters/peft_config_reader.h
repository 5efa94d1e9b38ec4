// Reads adapter_config.json field by field. A field that is null counts as absent. Functions throw
// ConfigError, which names the field, for unsupported values.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace colossal::adapters {

class PeftConfigReader {
 public:
  // Throws ConfigError if the file is not a JSON object.
  explicit PeftConfigReader(std::filesystem::path file);

  // Returns a string field; empty if the field is absent.
  std::string text(const char* field) const;
  // Throws ConfigError unless the field is absent or equals `value`.
  void require(const char* field, const char* value) const;
  // Throws ConfigError unless the field is absent, null, false or empty.
  void require_nothing(const char* field) const;
  // Returns a number above 0, an integer if Number is one; `absent` if the field is absent.
  template <typename Number>
  Number positive(const char* field, Number absent) const {
    const Json found = get(field);
    if (found.is_null()) return absent;
    const bool fits = std::is_integral_v<Number> ? found.is_number_integer() : found.is_number();
    if (!fits || !(found > 0)) refuse(field, "a number above 0 is needed");
    return found.get<Number>();
  }
  // Whether the field is true.
  bool flag(const char* field) const { return get(field) == true; }
  // Whether the field is present and false.
  bool is_false(const char* field) const { return get(field) == false; }
  // Returns a list of strings; empty if the field is absent.
  std::vector<std::string> strings(const char* field) const;
  // Returns an object of numbers above 0 as pairs, in the file's order; empty if the field is
  // absent.
  template <typename Number>
  std::vector<std::pair<std::string, Number>> pattern(const char* field) const {
    const Json found = get(field);
    if (found.is_null()) return {};
    if (!found.is_object()) refuse(field, "an object of numbers above 0 is needed");
    std::vector<std::pair<std::string, Number>> entries;
    for (const auto& [name, value] : found.items()) {
      const bool fits = std::is_integral_v<Number> ? value.is_number_integer() : value.is_number();
      if (!fits || !(value > 0)) refuse(field, "an object of numbers above 0 is needed");
      entries.emplace_back(name, value.template get<Number>());
    }
    return entries;
  }
  // Throws ConfigError with the field, its value and `why`, the reason that it is unsupported.
  [[noreturn]] void refuse(const char* field, const std::string& why) const;

 private:
  using Json = nlohmann::ordered_json;

  Json get(const char* field) const { return json_.value(field, Json()); }

  std::filesystem::path file_;
  Json json_;
};

}  // namespace colossal::adapters
