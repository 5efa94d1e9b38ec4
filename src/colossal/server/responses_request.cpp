#include "colossal/server/responses_request.h"

#include <algorithm>

namespace colossal::server {
namespace {

constexpr std::string_view kNotStored =
    "this server stores no responses: send the whole conversation as \"input\"";

// Returns the content of an item, a string or a list of parts, for chat templates.
Json content_of_parts(const Json& content) {
  if (content.is_string()) return content;
  if (!content.is_array()) refuse_type("input", "content as a string or a list of parts", content);
  Json parts = Json::array();
  for (const Json& part : content) {
    const Json type = part.is_object() ? part.value("type", Json()) : Json();
    const bool is_text = type == "input_text" || type == "output_text" || type == "text";
    if (!is_text && type != "refusal") {
      refuse_type("input",
                  "parts of type \"input_text\" or \"output_text\": this model reads text only",
                  part);
    }
    parts.push_back(
        {{"type", "text"}, {"text", required_string(part, is_text ? "text" : "refusal", "input")}});
  }
  if (parts.size() == 1) return parts[0]["text"];
  return parts.empty() ? Json("") : parts;
}

// Collects messages from the items of an input.
class Items {
 public:
  void add(const Json& item) {
    if (!item.is_object()) refuse_type("input", "a list of items", item);
    const Json type = item.value("type", Json("message"));
    if (type == "message") {
      add_message(item);
    } else if (type == "function_call") {
      Json& message = assistant_message();
      message["tool_calls"].push_back(
          {{"id", required_string(item, "call_id", "input")},
           {"type", "function"},
           {"function",
            {{"name", required_string(item, "name", "input")},
             {"arguments", required_string(item, "arguments", "input")}}}});
    } else if (type == "function_call_output") {
      messages_.push_back({{"role", "tool"},
                           {"tool_call_id", required_string(item, "call_id", "input")},
                           {"content", content_of_parts(item.value("output", Json()))}});
      is_open_ = false;
    } else if (type == "reasoning") {
      add_reasoning(item);
    } else if (type == "item_reference") {
      throw ApiError(400, std::string(kNotStored), "input");
    } else {
      refuse_type("input",
                  "items of type \"message\", \"function_call\", \"function_call_output\" or "
                  "\"reasoning\"",
                  item);
    }
  }

  Json take() { return std::move(messages_); }

 private:
  void add_message(const Json& item) {
    const std::string role = required_string(item, "role", "input");
    Json content = content_of_parts(item.value("content", Json()));
    if (role == "assistant") {
      Json& message = assistant_message();
      if (message["content"].is_null()) {
        message["content"] = std::move(content);
        return;
      }
      is_open_ = false;
      assistant_message()["content"] = std::move(content);
      return;
    }
    messages_.push_back({{"role", role}, {"content", std::move(content)}});
    is_open_ = false;
  }

  void add_reasoning(const Json& item) {
    std::string text;
    for (const char* list : {"content", "summary"}) {
      for (const Json& part : item.value(list, Json::array())) {
        if (part.is_object() && part.contains("text") && part["text"].is_string()) {
          text += part["text"].get<std::string>();
        }
      }
      if (!text.empty()) break;
    }
    is_open_ = false;  // reasoning begins an answer
    if (!text.empty()) assistant_message()["reasoning_content"] = text;
  }

  // Returns the message to which items of one answer of the assistant belong: its reasoning, its
  // text and its calls.
  Json& assistant_message() {
    if (!std::exchange(is_open_, true)) {
      messages_.push_back({{"role", "assistant"}, {"content", nullptr}});
    }
    return messages_.back();
  }

  Json messages_ = Json::array();
  bool is_open_ =
      false;  // the last message is of the assistant, and further items may belong to it
};

Json translate_input(Fields& fields) {
  Json messages = Json::array();
  if (const auto instructions = fields.string("instructions")) {
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  }
  const Json* input = fields.find("input");
  if (!input || (!input->is_string() && !input->is_array())) {
    refuse_type("input", "a string or a list of items", input ? *input : Json());
  }
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    return messages;
  }
  Items items;
  for (const Json& item : *input) items.add(item);
  for (Json& message : items.take()) messages.push_back(std::move(message));
  return messages;
}

Json function_tools(const Json& given) {
  if (!given.is_array()) refuse_type("tools", "a list of tools", given);
  Json tools = Json::array();
  for (const Json& tool : given) {
    if (!tool.is_object() || tool.value("type", Json()) != "function") {
      refuse_type("tools", "tools of type \"function\": this server runs no tools of its own",
                  tool);
    }
    tools.push_back(function_tool(required_string(tool, "name", "tools"),
                                  tool.value("description", Json()),
                                  tool.value("parameters", Json())));
  }
  return tools;
}

Json translate_tool_choice(const Json& choice) {
  if (!choice.is_object()) return choice;
  if (choice.value("type", Json()) != "function") {
    refuse_type("tool_choice",
                "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"name\": ...}",
                choice);
  }
  return {{"type", "function"},
          {"function", {{"name", required_string(choice, "name", "tool_choice")}}}};
}

void translate_text(Fields& fields, Json& body) {
  const Json* text = fields.find("text");
  if (!text) return;
  if (!text->is_object()) refuse_type("text", "an object", *text);
  Fields inner(*text);
  inner.ignore("verbosity");
  const Json* format = inner.find("format");
  if (!format) return;
  const Json type = format->is_object() ? format->value("type", Json()) : Json();
  if (type == "json_schema" && format->contains("schema")) {
    body["response_format"] = schema_format((*format)["schema"]);
  } else if (type == "text" || type == "json_object") {
    body["response_format"] = {{"type", type}};
  } else {
    refuse_type("text",
                "a format {\"type\": \"text\"}, {\"type\": \"json_object\"} or {\"type\": "
                "\"json_schema\", \"schema\": ...}",
                *format);
  }
}

void translate_reasoning(Fields& fields, Json& body) {
  const Json* reasoning = fields.find("reasoning");
  if (!reasoning) return;
  if (!reasoning->is_object()) refuse_type("reasoning", "an object", *reasoning);
  Fields inner(*reasoning);
  if (const auto effort = inner.string("effort")) body["reasoning_effort"] = *effort;
}

}  // namespace

TranslatedRequest translate_responses(const Json& given) {
  Fields fields(given);
  for (const char* name : {"previous_response_id", "conversation"}) {
    fields.refuse_unless(name, nullptr, kNotStored);
  }
  fields.refuse_unless("prompt", nullptr, "this server stores no prompts");
  fields.refuse_unless("background", false, "this server stores no responses: wait for this one");
  Json body;
  copy_fields(fields, body,
              {{"model", "model"},
               {"temperature", "temperature"},
               {"top_p", "top_p"},
               {"stream", "stream"},
               {"parallel_tool_calls", "parallel_tool_calls"},
               {"max_output_tokens", "max_completion_tokens"}});
  const int64_t top = fields.integer("top_logprobs", 0, 20).value_or(0);
  const std::vector<std::string> include = fields.strings("include");
  if (top > 0 || std::ranges::find(include, "message.output_text.logprobs") != include.end()) {
    body["logprobs"] = true;
    body["top_logprobs"] = top;
  }
  body["messages"] = translate_input(fields);
  if (const Json* tools = fields.find("tools")) body["tools"] = function_tools(*tools);
  if (const Json* choice = fields.find("tool_choice")) {
    body["tool_choice"] = translate_tool_choice(*choice);
  }
  translate_text(fields, body);
  translate_reasoning(fields, body);
  if (fields.string("truncation").value_or("disabled") == "auto") {
    body["truncate_prompt_tokens"] = -1;
  }
  for (const char* name :
       {"max_tool_calls", "metadata", "prompt_cache_key", "prompt_cache_retention",
        "safety_identifier", "service_tier", "store", "stream_options", "user"}) {
    fields.ignore(name);
  }
  return {std::move(body), fields.unknown()};
}

}  // namespace colossal::server
