// JSON of requests and responses.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/server/api_error.h"

namespace colossal::server {

// ordered: chat templates print objects in the order of the request
using Json = nlohmann::ordered_json;

// Parses a request body. Throws ApiError 400 if the body is not a JSON object, is nested deeper
// than 64 levels, has a key twice in one object, or has too many keys.
Json parse_body(std::string_view body);

// Parses JSON that a string of a body contains; nullopt if the string is not JSON. Any JSON value
// is accepted. Throws ApiError 400 for the same nesting and keys as parse_body().
std::optional<Json> parse_text(const std::string& text);

// Serializes to one line; invalid UTF-8 becomes U+FFFD.
std::string to_text(const Json& json);

// The fields of a request's JSON object. Each function marks the field as known. A field that is
// null counts as missing. Throws ApiError 400, which names the field, if a value has the wrong type
// or is out of range.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  const Json* find(const char* name);              // null if missing
  bool boolean(const char* name, bool otherwise);  // `otherwise` if missing
  // Return nullopt, or an empty list, if the field is missing.
  std::optional<std::string> string(const char* name);
  std::optional<double> number(const char* name, double minimum, double maximum);
  std::optional<int64_t> integer(const char* name, int64_t minimum, int64_t maximum);
  std::vector<std::string> strings(const char* name);  // a string or a list of strings
  std::vector<int32_t> tokens(const char* name);
  // For a field that is supported with one value only: throws ApiError 400 unless the field is
  // missing or equals `accepted`. The error message is the field, its value and `instead`.
  void refuse_unless(const char* name, const Json& accepted, std::string_view instead);
  void ignore(const char* name) { find(name); }

  // Names of the fields that no function was called for.
  std::vector<std::string> unknown() const;

 private:
  const Json& object_;
  std::set<std::string> known_;
};

// Throws ApiError 400: the field is `found`, but must be `wanted`, e.g. "a string".
[[noreturn]] void refuse_type(const std::string& field, std::string_view wanted, const Json& found);
// Returns a token number. Throws ApiError 400 unless the value is an integer from 0 to INT32_MAX.
int32_t read_token(const Json& value, const std::string& field);

}  // namespace colossal::server
