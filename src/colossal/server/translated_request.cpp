#include "colossal/server/translated_request.h"

namespace colossal::server {

void copy_fields(Fields& fields, Json& body,
                 std::initializer_list<std::pair<const char*, const char*>> names) {
  for (const auto& [from, to] : names) {
    if (const Json* value = fields.find(from)) body[to] = *value;
  }
}

Json schema_format(const Json& schema) {
  return {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", schema}}}};
}

Json function_tool(const std::string& name, const Json& description, const Json& parameters) {
  Json function{{"name", name}};
  if (!description.is_null()) function["description"] = description;
  if (!parameters.is_null()) function["parameters"] = parameters;
  return {{"type", "function"}, {"function", std::move(function)}};
}

std::string required_string(const Json& object, const char* name, const char* where) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) {
    refuse_type(where, fmt::format("have \"{}\" as a string", name), object);
  }
  return found->get<std::string>();
}

}  // namespace colossal::server
