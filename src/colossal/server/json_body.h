// JSON that comes in requests and goes out in answers.
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

using Json = nlohmann::ordered_json;  // templates show objects in the order that they came in

// Throws ApiError 400: not JSON, not an object, nested deeper than 64, a key twice, or more keys
// than any request has.
Json parse_body(std::string_view body);

// JSON within a string of a body; nothing where it is none. Throws ApiError 400 as parse_body()
// does.
std::optional<Json> parse_text(const std::string& text);

// On one line; bytes that are not UTF-8 become U+FFFD.
std::string to_text(const Json& json);

// The fields of a request's object. Reading one marks it as known; null counts as missing. What has
// another type or is out of range is refused by ApiError 400 that names the field.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  const Json* find(const char* name);
  bool boolean(const char* name, bool otherwise);
  std::optional<std::string> string(const char* name);
  std::optional<double> number(const char* name, double minimum, double maximum);
  std::optional<int64_t> integer(const char* name, int64_t minimum, int64_t maximum);
  std::vector<std::string> strings(const char* name);  // one or a list of them
  std::vector<int32_t> tokens(const char* name);
  // For what is known and not supported: refuses any value but `accepted`.
  void refuse_unless(const char* name, const Json& accepted, std::string_view instead);
  void ignore(const char* name) { find(name); }

  std::vector<std::string> unknown() const;

 private:
  const Json& object_;
  std::set<std::string> known_;
};

[[noreturn]] void refuse_type(const std::string& field, std::string_view wanted, const Json& found);
// A number that fits a token.
int32_t read_token(const Json& value, const std::string& field);

}  // namespace colossal::server
