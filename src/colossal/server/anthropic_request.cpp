#include "colossal/server/anthropic_request.h"

namespace colossal::server {
namespace {

// Returns a text, or a list of blocks of text, as the content of a message for chat templates.
Json content_of_text(const Json& given, const char* field) {
  if (given.is_string()) return given;
  if (!given.is_array()) refuse_type(field, "a string or a list of blocks", given);
  Json parts = Json::array();
  for (const Json& block : given) {
    if (!block.is_object() || block.value("type", Json()) != "text") {
      refuse_type(field, "blocks of type \"text\": this model reads text only", block);
    }
    parts.push_back({{"type", "text"}, {"text", required_string(block, "text", field)}});
  }
  if (parts.size() == 1) return parts[0]["text"];
  return parts.empty() ? Json("") : parts;
}

// The messages that one message of Anthropic's API becomes.
class Blocks {
 public:
  explicit Blocks(const std::string& role) : role_(role) {}

  void add(const Json& block) {
    const Json type = block.is_object() ? block.value("type", Json()) : Json();
    const bool is_assistant = role_ == "assistant";
    if (type == "text") {
      text_.push_back({{"type", "text"}, {"text", required_string(block, "text", "messages")}});
    } else if (type == "tool_result" && !is_assistant) {
      add_result(block);
    } else if (type == "tool_use" && is_assistant) {
      calls_.push_back({{"id", required_string(block, "id", "messages")},
                        {"type", "function"},
                        {"function",
                         {{"name", required_string(block, "name", "messages")},
                          {"arguments", block.value("input", Json::object())}}}});
    } else if (type == "thinking" && is_assistant) {
      thinking_ += required_string(block, "thinking", "messages");
    } else if (type != "redacted_thinking") {
      refuse_type("messages",
                  is_assistant
                      ? "blocks of type \"text\", \"thinking\" or \"tool_use\""
                      : "blocks of type \"text\" or \"tool_result\": this model reads text "
                        "only",
                  block);
    }
  }

  void finish(Json& messages) {
    const bool has_results = !results_.empty();
    for (Json& result : results_) messages.push_back(std::move(result));
    if (has_results && text_.empty()) return;
    Json message{{"role", role_}, {"content", content_of_text(text_, "messages")}};
    if (!thinking_.empty()) message["reasoning_content"] = thinking_;
    if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
    messages.push_back(std::move(message));
  }

 private:
  void add_result(const Json& block) {
    Json content = content_of_text(block.value("content", Json("")), "messages");
    if (block.value("is_error", Json()) == true) {
      if (content.is_array()) content = to_text(content);
      content = "Error: " + content.get<std::string>();
    }
    results_.push_back({{"role", "tool"},
                        {"tool_call_id", required_string(block, "tool_use_id", "messages")},
                        {"content", std::move(content)}});
  }

  std::string role_;
  Json text_ = Json::array(), calls_ = Json::array(), results_ = Json::array();
  std::string thinking_;
};

Json translate_messages(Fields& fields) {
  Json messages = Json::array();
  if (const Json* system = fields.find("system")) {
    messages.push_back({{"role", "system"}, {"content", content_of_text(*system, "system")}});
  }
  const Json* given = fields.find("messages");
  if (!given || !given->is_array() || given->empty()) {
    refuse_type("messages", "a list of messages", given ? *given : Json());
  }
  for (const Json& message : *given) {
    const Json role = message.is_object() ? message.value("role", Json()) : Json();
    if ((role != "user" && role != "assistant") || !message.contains("content")) {
      refuse_type("messages", "objects with \"role\", \"user\" or \"assistant\", and \"content\"",
                  message);
    }
    const Json& content = message["content"];
    if (!content.is_array()) {
      messages.push_back({{"role", role}, {"content", content_of_text(content, "messages")}});
      continue;
    }
    Blocks blocks(role.get<std::string>());
    for (const Json& block : content) blocks.add(block);
    blocks.finish(messages);
  }
  return messages;
}

Json custom_tools(const Json& given) {
  if (!given.is_array()) refuse_type("tools", "a list of tools", given);
  Json tools = Json::array();
  for (const Json& tool : given) {
    const bool is_custom = tool.is_object() && tool.value("type", Json("custom")) == "custom";
    if (!is_custom || !tool.contains("input_schema")) {
      refuse_type(
          "tools",
          "tools of the client, {\"name\": ..., \"input_schema\": schema}: this server runs "
          "no tools of its own",
          tool);
    }
    tools.push_back(function_tool(required_string(tool, "name", "tools"),
                                  tool.value("description", Json()), tool["input_schema"]));
  }
  return tools;
}

void translate_tool_choice(const Json& choice, Json& body) {
  const Json type = choice.is_object() ? choice.value("type", Json()) : Json();
  if (type == "auto" || type == "none") {
    body["tool_choice"] = type;
  } else if (type == "any") {
    body["tool_choice"] = "required";
  } else if (type == "tool") {
    body["tool_choice"] = {
        {"type", "function"},
        {"function", {{"name", required_string(choice, "name", "tool_choice")}}}};
  } else {
    refuse_type("tool_choice", "{\"type\": \"auto\", \"any\", \"tool\" or \"none\"}", choice);
  }
  if (choice.value("disable_parallel_tool_use", Json()) == true) {
    body["parallel_tool_calls"] = false;
  }
}

// Templates of models that think read the variable enable_thinking.
void translate_thinking(Fields& fields, Json& body) {
  const Json* thinking = fields.find("thinking");
  if (!thinking) return;
  const Json type = thinking->is_object() ? thinking->value("type", Json()) : Json();
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    refuse_type("thinking", "{\"type\": \"enabled\", \"adaptive\" or \"disabled\"}", *thinking);
  }
  body["chat_template_kwargs"] = {{"enable_thinking", type != "disabled"}};
}

void translate_output_config(Fields& fields, Json& body) {
  const Json* config = fields.find("output_config");
  if (!config) return;
  if (!config->is_object()) refuse_type("output_config", "an object", *config);
  Fields inner(*config);
  if (const auto effort = inner.string("effort")) body["reasoning_effort"] = *effort;
  const Json* format = inner.find("format");
  if (!format) return;
  if (!format->is_object() || format->value("type", Json()) != "json_schema" ||
      !format->contains("schema")) {
    refuse_type("output_config", "a format {\"type\": \"json_schema\", \"schema\": ...}", *format);
  }
  body["response_format"] = schema_format((*format)["schema"]);
}

}  // namespace

TranslatedRequest translate_anthropic(const Json& given, bool generates) {
  Fields fields(given);
  Json body;
  copy_fields(fields, body,
              {{"model", "model"},
               {"temperature", "temperature"},
               {"top_p", "top_p"},
               {"top_k", "top_k"},
               {"stream", "stream"},
               {"stop_sequences", "stop"},
               {"max_tokens", "max_tokens"}});
  if (generates && !body.contains("max_tokens")) {
    throw ApiError(400, "max_tokens is missing", "max_tokens");
  }
  body["messages"] = translate_messages(fields);
  if (body["messages"].back()["role"] == "assistant") {
    body["continue_final_message"] = true;
    body["add_generation_prompt"] = false;
  }
  if (const Json* tools = fields.find("tools")) body["tools"] = custom_tools(*tools);
  if (const Json* choice = fields.find("tool_choice")) translate_tool_choice(*choice, body);
  translate_thinking(fields, body);
  translate_output_config(fields, body);
  for (const char* name : {"mcp_servers", "container"}) {
    fields.refuse_unless(name, Json::array(), "is not supported; leave it out");
  }
  for (const char* name : {"metadata", "service_tier", "context_management", "betas"}) {
    fields.ignore(name);
  }
  return {std::move(body), fields.unknown()};
}

}  // namespace colossal::server
