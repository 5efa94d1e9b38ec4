// JSON values with their paths, so that error messages name the place in the file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

// Like io::parse_json, but throws ConfigError.
nlohmann::json parse_json(std::string_view text, const std::string& file);

// A value and its path in the file ("model.merges[3]"). The value and the file name must outlive
// the node. A missing value counts as null. Reading functions throw ConfigError if the value has
// the wrong type or range, or is null although the function has no result for null.
class JsonNode {
 public:
  static constexpr int64_t kMaxToken = 1 << 24;

  JsonNode(const nlohmann::json& value, std::string_view file, std::string path)
      : value_(value), file_(file), path_(std::move(path)) {}

  // Throws ConfigError: "FILE: PATH what".
  [[noreturn]] void refuse(std::string_view what) const;

  bool is_null() const { return value_.is_null(); }
  bool is_string() const { return value_.is_string(); }
  bool is_array() const { return value_.is_array(); }

  // Returns the member `key`, null if missing. Throws ConfigError if this value is not an object.
  JsonNode operator[](const char* key) const;
  JsonNode element(size_t index) const;  // of a list; requires index < size()
  size_t size() const { return is_array() ? value_.size() : 0; }  // 0 if not a list

  std::string string() const;
  std::optional<std::string> optional_string() const;  // nullopt if null
  // otherwise: the result for null. nullopt: null is an error.
  bool boolean(bool otherwise) const;
  double number(std::optional<double> otherwise) const;
  int32_t token() const;  // an integer from 0 to kMaxToken

  template <typename Function>  // void(JsonNode); null counts as an empty list
  void for_each(Function function) const {
    if (is_null()) return;
    if (!is_array()) refuse_type("a list");
    for (size_t i = 0; i < value_.size(); ++i) {
      function(element(i));
    }
  }

  template <typename Function>  // void(const std::string& key, JsonNode)
  void for_each_member(Function function) const {
    if (!value_.is_object()) refuse_type("an object");
    for (const auto& [key, value] : value_.items()) {
      function(key, JsonNode(value, file_, path_ + "[\"" + key + "\"]"));
    }
  }

 private:
  [[noreturn]] void refuse_type(std::string_view wanted) const;

  const nlohmann::json& value_;
  std::string_view file_;
  std::string path_;
};

}  // namespace colossal::text
