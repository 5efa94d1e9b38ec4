#include "colossal/server/tool_request.h"

#include <algorithm>

namespace colossal::server {
namespace {

constexpr size_t kMaxTools = 128;

const Json* find_function(const Json& tool) {
  if (!tool.is_object() || tool.value("type", Json()) != "function") return nullptr;
  const auto function = tool.find("function");
  const bool fits = function != tool.end() && function->is_object() && function->contains("name") &&
                    (*function)["name"].is_string();
  return fits ? &*function : nullptr;
}

std::string name_of(const Json& tool) {
  return (*find_function(tool))["name"].get<std::string>();
}

void check_tools(const Json& tools) {
  constexpr std::string_view kForm =
      "a list of {\"type\": \"function\", \"function\": {\"name\": ..., \"parameters\": schema}}";
  if (!tools.is_array()) refuse_type("tools", kForm, tools);
  if (tools.size() > kMaxTools) {
    throw ApiError(400, fmt::format("tools: must be at most {}", kMaxTools), "tools");
  }
  for (const Json& tool : tools) {
    const Json* function = find_function(tool);
    if (!function) refuse_type("tools", kForm, tool);
    const Json parameters = function->value("parameters", Json());
    if (!parameters.is_null() && !parameters.is_object()) refuse_type("tools", kForm, tool);
  }
}

ToolRequest::Choice read_choice(const Json& choice, std::string& name) {
  using Choice = ToolRequest::Choice;
  if (choice == "none") return Choice::none;
  if (choice == "auto") return Choice::automatic;
  if (choice == "required") return Choice::required;
  if (find_function(choice)) {
    name = name_of(choice);
    return Choice::named;
  }
  refuse_type("tool_choice",
              "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": "
              "{\"name\": ...}}",
              choice);
}

Json tool_of(const Json& function) {
  return {{"type", "function"}, {"function", function}};
}

// Returns the older field `functions` as `tools`; null if it is missing.
Json read_functions(Fields& fields) {
  const Json* functions = fields.find("functions");
  if (!functions) return nullptr;
  if (fields.find("tools")) {
    throw ApiError(400, "functions does not work together with tools: give one of them",
                   "functions");
  }
  if (!functions->is_array()) {
    refuse_type("functions", "a list of {\"name\": ..., \"parameters\": schema}", *functions);
  }
  Json tools = Json::array();
  for (const Json& function : *functions) tools.push_back(tool_of(function));
  return tools;
}

// Makes a message with "function_call", or of the role "function", one of tools.
void modernize(Json& message) {
  const auto call = message.find("function_call");
  if (call != message.end() && call->is_object() && !message.contains("tool_calls")) {
    Json tool = tool_of(*call);
    tool["id"] = "call_" + call->value("name", "");
    message["tool_calls"] = Json::array({std::move(tool)});
  }
  message.erase("function_call");
  if (message.value("role", "") != "function") return;
  message["role"] = "tool";
  if (message.contains("name") && message["name"].is_string()) {
    message["tool_call_id"] = "call_" + message["name"].get<std::string>();
  }
}

// Adapts local references ("$ref": "#...") of a schema that is embedded at `place` in a larger
// schema.
void move_references(Json& schema, const std::string& place) {
  if (!schema.is_structured()) return;
  for (auto& [key, value] : schema.items()) {
    if (key == "$ref" && value.is_string()) {
      const auto& path = value.get_ref<const std::string&>();
      if (path.starts_with('#')) value = place + path.substr(1);
    } else {
      move_references(value, place);
    }
  }
}

Json parameters_of(const Json& tool, const std::string& place) {
  Json parameters = find_function(tool)->value("parameters", Json());
  if (parameters.is_null() || parameters.empty()) parameters = {{"type", "object"}};
  move_references(parameters, place);
  return parameters;
}

// Returns the JSON schema of a list of calls: [{"name": ..., "parameters": {...}}, ...].
Json schema_of_calls(const Json& tools, bool parallel) {
  Json definitions = Json::object(), calls = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string key = fmt::format("tool{}", i), place = "#/$defs/" + key;
    definitions[key] = parameters_of(tools[i], place);
    calls.push_back(
        {{"type", "object"},
         {"properties",
          {{"name", {{"const", name_of(tools[i])}}}, {"parameters", {{"$ref", place}}}}},
         {"required", {"name", "parameters"}}});
  }
  Json schema{{"$defs", std::move(definitions)},
              {"type", "array"},
              {"items", {{"anyOf", std::move(calls)}}},
              {"minItems", 1}};
  if (!parallel) schema["maxItems"] = 1;
  return schema;
}

// Replaces the arguments in "tool_calls" of a message, which are JSON in a string, by the parsed
// object, as chat templates expect it.
void parse_arguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return;
  constexpr std::string_view kForm =
      "tool_calls as {\"type\": \"function\", \"function\": {\"name\": ..., \"arguments\": JSON}}";
  if (!calls->is_array()) refuse_type("messages", kForm, *calls);
  for (Json& call : *calls) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object() ||
        !function->contains("name")) {
      refuse_type("messages", kForm, call);
    }
    const auto arguments = function->find("arguments");
    if (arguments == function->end() || !arguments->is_string()) continue;
    auto parsed = parse_text(arguments->get_ref<const std::string&>());
    if (parsed && parsed->is_object()) *arguments = *std::move(parsed);
  }
}

void check_message(const Json& message) {
  if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
    refuse_type("messages", "objects with \"role\" and \"content\"", message);
  }
  const auto content = message.find("content");
  if (content == message.end() || content->is_null() || content->is_string()) return;
  if (!content->is_array()) refuse_type("messages", "content as a string or parts", *content);
  for (const Json& part : *content) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      refuse_type("messages", "parts of type \"text\": this model reads text only", part);
    }
  }
}

}  // namespace

std::optional<TextRule> ToolRequest::rule() const {
  if (choice == Choice::required) {
    return TextRule{TextRule::Kind::json_schema, schema_of_calls(tools, parallel)};
  }
  if (choice != Choice::named) return std::nullopt;
  const auto tool =
      std::ranges::find_if(tools, [&](const Json& each) { return name_of(each) == name; });
  return TextRule{TextRule::Kind::json_schema, parameters_of(*tool, "#")};
}

text::ToolCallForm ToolRequest::form(text::ToolCallForm of_model) const {
  switch (choice) {
    case Choice::none:
      return text::ToolCallForm::none;
    case Choice::automatic:
      return of_model;
    case Choice::required:
      return text::ToolCallForm::list;
    case Choice::named:
      return text::ToolCallForm::arguments;
  }
  return text::ToolCallForm::none;
}

ToolRequest read_tools(Fields& fields) {
  ToolRequest request;
  const Json functions = read_functions(fields);
  const Json* tools = functions.is_null() ? fields.find("tools") : &functions;
  if (tools) check_tools(*tools);
  if (tools && !tools->empty()) {
    request.tools = *tools;
    request.choice = ToolRequest::Choice::automatic;
  }
  request.are_functions = !functions.is_null();
  request.parallel = fields.boolean("parallel_tool_calls", true) && !request.are_functions;
  const Json* choice = fields.find("tool_choice");
  const Json* function_call = fields.find("function_call");
  if (!choice && !function_call) return request;
  if (choice) {
    request.choice = read_choice(*choice, request.name);
  } else {
    const bool is_name = function_call->is_object() && function_call->contains("name");
    request.choice = read_choice(is_name ? tool_of(*function_call) : *function_call, request.name);
  }
  const bool forced = request.choice == ToolRequest::Choice::required ||
                      request.choice == ToolRequest::Choice::named;
  if (request.tools.is_null()) {
    if (forced) throw ApiError(400, "tool_choice: the request has no tools to call", "tool_choice");
    request.choice = ToolRequest::Choice::none;
  }
  const auto is_it = [&](const Json& tool) { return name_of(tool) == request.name; };
  if (!request.name.empty() && std::ranges::none_of(request.tools, is_it)) {
    throw ApiError(
        400, fmt::format("tool_choice: {:?} is not among the tools", request.name.substr(0, 200)),
        "tool_choice");
  }
  if (request.choice == ToolRequest::Choice::none) request.tools = nullptr;
  return request;
}

Json read_messages(Fields& fields) {
  const Json* messages = fields.find("messages");
  if (!messages) throw ApiError(400, "messages is missing", "messages");
  if (!messages->is_array() || messages->empty()) {
    refuse_type("messages", "a list of messages", *messages);
  }
  Json parsed = *messages;
  for (Json& message : parsed) {
    check_message(message);
    modernize(message);
    parse_arguments(message);
  }
  return parsed;
}

}  // namespace colossal::server
