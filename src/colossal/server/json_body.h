// JSON of requests and responses: parses bodies within limits, and reads their fields with error
// messages for clients.
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

// Ordered, because chat templates print objects in the order of the request.
using Json = nlohmann::ordered_json;

// Parses a request body. Throws ApiError 400 if the body is not a JSON object, is nested deeper
// than 64 levels, has a key twice in one object, has more than 1,100 keys in one object, or has
// more than 50,000 keys in all objects together.
Json parse_body(std::string_view body);

// Parses a string of a request that contains JSON. Returns nullopt if the string is not JSON. Any
// JSON value is accepted. Throws ApiError 400 for the nesting and keys that parse_body() rejects.
std::optional<Json> parse_text(const std::string& text);

// Returns the JSON on one line. Invalid UTF-8 becomes U+FFFD.
std::string to_text(const Json& json);

// Reads the fields of one JSON object of a request. Each function marks its field as known. A field
// that is null counts as missing. Functions throw ApiError 400, naming the field, if the value has
// the wrong type or is out of range.
class Fields {
 public:
  // object: must outlive the Fields.
  explicit Fields(const Json& object) : object_(object) {}

  // Returns the value of a field; null if it is missing.
  const Json* find(const char* name);
  // Returns the value of a field; `otherwise` if it is missing.
  bool boolean(const char* name, bool otherwise);
  // Return nullopt, or an empty list, if the field is missing. minimum and maximum are included.
  std::optional<std::string> string(const char* name);
  std::optional<double> number(const char* name, double minimum, double maximum);
  std::optional<int64_t> integer(const char* name, int64_t minimum, int64_t maximum);
  // Lists of more than 100,000 elements are out of range. strings() accepts a string or a list of
  // strings.
  std::vector<std::string> strings(const char* name);
  std::vector<int32_t> tokens(const char* name);  // a list of token ids
  // For a field of which only one value is supported: throws ApiError 400 unless the field is
  // missing or equals `accepted`. instead: ends the error message, as advice for the client.
  void refuse_unless(const char* name, const Json& accepted, std::string_view instead);
  // Marks a field as known without reading it.
  void ignore(const char* name) { find(name); }

  // Returns the names of the fields for which no function was called.
  std::vector<std::string> unknown() const;

 private:
  const Json& object_;
  std::set<std::string> known_;
};

// Throws ApiError 400: `field` has the value `found` but must be `wanted`, such as "a string".
[[noreturn]] void refuse_type(const std::string& field, std::string_view wanted, const Json& found);
// Returns a token id. field: for the error message. Throws ApiError 400 unless the value is an
// integer from 0 to INT32_MAX.
int32_t read_token(const Json& value, const std::string& field);

}  // namespace colossal::server
