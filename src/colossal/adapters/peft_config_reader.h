// Reads adapter_config.json field by field; what it cannot read it refuses by name.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace colossal::adapters {

class PeftConfigReader {
 public:
  // Throws ConfigError for a file that is no JSON object.
  explicit PeftConfigReader(std::filesystem::path file);

  // Empty: the field is absent.
  std::string text(const char* field) const;
  void require(const char* field, const char* value) const;
  // Null, false, or of no entries.
  void require_nothing(const char* field) const;
  template <typename Number>
  Number positive(const char* field, Number absent) const {
    const Json found = get(field);
    if (found.is_null()) return absent;
    const bool fits = std::is_integral_v<Number> ? found.is_number_integer() : found.is_number();
    if (!fits || !(found > 0)) refuse(field, "a number above 0 is needed");
    return found.get<Number>();
  }
  bool flag(const char* field) const { return get(field) == true; }
  bool is_false(const char* field) const { return get(field) == false; }
  std::vector<std::string> strings(const char* field) const;
  // An object of positive numbers, in the file's order.
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
  // Throws ConfigError that names the field with its value, and says why it is not read.
  [[noreturn]] void refuse(const char* field, const std::string& why) const;

 private:
  using Json = nlohmann::ordered_json;

  Json get(const char* field) const { return json_.value(field, Json()); }

  std::filesystem::path file_;
  Json json_;
};

}  // namespace colossal::adapters
