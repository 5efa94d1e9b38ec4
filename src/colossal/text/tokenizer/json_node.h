// Reads values of a parsed JSON file with error messages that name the file and the path of the
// value. Used to read tokenizer.json and the files beside it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

// Parses JSON. file: path of the file, for error messages. Throws ConfigError "FILE: reason" if
// `text` is not valid JSON.
nlohmann::json parse_json(std::string_view text, const std::string& file);

// A JSON value, the name of its file, and its path in the file ("model.merges[3]"). A missing
// member is a node with the value null. The root value and the file name must outlive all nodes.
// The functions that read a value (string(), number(), ...) throw ConfigError if the value has the
// wrong type or is out of range. They also throw for null, unless their comment says what they do
// for null.
class JsonNode {
 public:
  static constexpr int64_t kMaxToken = 1 << 24;  // largest token id that a file may have

  // path: "" for the root of the file.
  JsonNode(const nlohmann::json& value, std::string_view file, std::string path)
      : value_(value), file_(file), path_(std::move(path)) {}

  // Throws ConfigError "FILE: PATH what".
  [[noreturn]] void refuse(std::string_view what) const;

  bool is_null() const { return value_.is_null(); }
  bool is_string() const { return value_.is_string(); }
  bool is_array() const { return value_.is_array(); }

  // Returns the member `key`; a node with null if there is no such member. Throws ConfigError if
  // this value is not an object.
  JsonNode operator[](const char* key) const;
  // Returns an element of a list. This value must be a list; index < size().
  JsonNode element(size_t index) const;
  size_t size() const { return is_array() ? value_.size() : 0; }  // 0 if this is no list

  std::string string() const;
  std::optional<std::string> optional_string() const;  // returns nullopt for null
  // Return `otherwise` for null. number() throws for null if `otherwise` is nullopt.
  bool boolean(bool otherwise) const;
  double number(std::optional<double> otherwise) const;
  // Reads a token id: an integer from 0 to kMaxToken.
  int32_t token() const;

  // Calls function(JsonNode element) for each element of a list; treats null as an empty list.
  template <typename Function>
  void for_each(Function function) const {
    if (is_null()) return;
    if (!is_array()) refuse_type("a list");
    for (size_t i = 0; i < value_.size(); ++i) {
      function(element(i));
    }
  }

  // Calls function(const std::string& key, JsonNode value) for each member of an object. Throws for
  // null.
  template <typename Function>
  void for_each_member(Function function) const {
    if (!value_.is_object()) refuse_type("an object");
    for (const auto& [key, value] : value_.items()) {
      function(key, JsonNode(value, file_, path_ + "[\"" + key + "\"]"));
    }
  }

 private:
  // Throws ConfigError: the value is missing or has the wrong type. wanted: such as "a list".
  [[noreturn]] void refuse_type(std::string_view wanted) const;

  const nlohmann::json& value_;
  std::string_view file_;
  std::string path_;
};

}  // namespace colossal::text
