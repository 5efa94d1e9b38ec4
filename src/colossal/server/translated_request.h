// What the requests of other APIs have in common: each is translated to the body of a request to
// /v1/chat/completions or /v1/completions, which generation_request.h reads. So all APIs have the
// same parameters, limits and checks.
#pragma once

#include <string>
#include <vector>

#include "colossal/server/json_body.h"

namespace colossal::server {

struct TranslatedRequest {
  Json body;                                // of the chat or completion request
  std::vector<std::string> unknown_fields;  // of the original request
};

// Copies fields of a request to `body` under other names: pairs of the name in the request and the
// name in `body`. Missing fields are left out.
void copy_fields(Fields& fields, Json& body,
                 std::initializer_list<std::pair<const char*, const char*>> names);

// Returns a response format for structured output by a JSON schema.
Json schema_format(const Json& schema);

// Returns a tool as /v1/chat/completions describes it. description, parameters: null if there is
// none.
Json function_tool(const std::string& name, const Json& description, const Json& parameters);

// Returns the string in `object` under `name`. where: names the object in the error, such as
// "messages". Throws ApiError 400 if it is missing or no string.
std::string required_string(const Json& object, const char* name, const char* where);

}  // namespace colossal::server
