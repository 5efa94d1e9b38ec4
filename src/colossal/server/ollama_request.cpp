#include "colossal/server/ollama_request.h"

namespace colossal::server {
namespace {

// Settings of ollama's own engine, for which this server has options of its own.
constexpr const char* kEngineOptions[] = {
    "num_ctx",   "num_keep", "num_batch", "num_gpu",    "main_gpu", "num_thread",       "use_mmap",
    "use_mlock", "numa",     "low_vram",  "vocab_only", "f16_kv",   "draft_num_predict"};

void translate_options(Fields& fields, Json& body) {
  const Json* options = fields.find("options");
  if (!options) return;
  if (!options->is_object()) refuse_type("options", "an object", *options);
  Fields inner(*options);
  copy_fields(inner, body,
              {{"temperature", "temperature"},
               {"top_k", "top_k"},
               {"top_p", "top_p"},
               {"min_p", "min_p"},
               {"typical_p", "typical_p"},
               {"seed", "seed"},
               {"stop", "stop"},
               {"repeat_penalty", "repetition_penalty"},
               {"presence_penalty", "presence_penalty"},
               {"frequency_penalty", "frequency_penalty"}});
  // Negative numbers mean: no limit.
  const auto limit = inner.integer("num_predict", -2, INT32_MAX);
  if (limit && *limit >= 0) body["max_tokens"] = std::max<int64_t>(*limit, 1);
  for (const char* name : kEngineOptions) inner.ignore(name);
  inner.refuse_unless("mirostat", 0, "is not supported; leave it out");
  for (const char* name :
       {"mirostat_tau", "mirostat_eta", "repeat_last_n", "tfs_z", "penalize_newline"}) {
    inner.ignore(name);
  }
  if (const auto unknown = inner.unknown(); !unknown.empty()) {
    throw ApiError(400, fmt::format("options: {:?} is unknown", unknown.front().substr(0, 200)),
                   "options");
  }
}

void translate_common(Fields& fields, Json& body) {
  copy_fields(fields, body, {{"model", "model"}});
  body["stream"] = fields.boolean("stream", true);
  if (const Json* format = fields.find("format"); format && *format != "") {
    if (*format == "json") {
      body["response_format"] = {{"type", "json_object"}};
    } else if (format->is_object()) {
      body["response_format"] = schema_format(*format);
    } else {
      refuse_type("format", "\"json\" or a JSON schema", *format);
    }
  }
  for (const char* name : {"keep_alive", "truncate", "shift"}) fields.ignore(name);
}

// is_chat: of the request that is made. In a completion request, "logprobs" is a number.
void translate_logprobs(Fields& fields, bool is_chat, Json& body) {
  const int64_t top = fields.integer("top_logprobs", 0, 20).value_or(0);
  if (!fields.boolean("logprobs", false)) return;
  body["logprobs"] = is_chat ? Json(true) : Json(top);
  if (is_chat) body["top_logprobs"] = top;
}

// Templates of models that think read the variable enable_thinking, or the effort.
void translate_think(Fields& fields, Json& body) {
  const Json* think = fields.find("think");
  if (!think) return;
  if (!think->is_boolean() && !think->is_string()) {
    refuse_type("think", "true, false, \"low\", \"medium\" or \"high\"", *think);
  }
  body["chat_template_kwargs"] = {{"enable_thinking", *think != false}};
  if (think->is_string()) body["reasoning_effort"] = *think;
}

void refuse_images(const Json& images, const char* field) {
  if (images.is_null() || images.empty()) return;
  refuse_type(field, "without images: this model reads text only", images);
}

// Returns a message for chat templates. ollama's calls have no id and arguments that are an object.
Json translate_message(const Json& given) {
  if (!given.is_object()) refuse_type("messages", "a list of messages", given);
  refuse_images(given.value("images", Json()), "messages");
  Json message{{"role", required_string(given, "role", "messages")},
               {"content", given.value("content", Json(""))}};
  if (const Json thinking = given.value("thinking", Json()); thinking.is_string()) {
    message["reasoning_content"] = thinking;
  }
  for (const char* name : {"tool_call_id", "tool_calls"}) {
    if (given.contains(name)) message[name] = given[name];
  }
  if (given.contains("tool_name")) message["name"] = given["tool_name"];
  return message;
}

// ollama's API names no calls; some templates do. A call and its result, the messages after it in
// the same order, get the same id.
void number_calls(Json& messages) {
  size_t made = 0, answered = 0;
  const auto id_of = [](size_t call) { return fmt::format("call{:05}", call); };
  for (Json& message : messages) {
    if (message.contains("tool_calls") && message["tool_calls"].is_array()) {
      for (Json& call : message["tool_calls"]) {
        if (!call.is_object()) refuse_type("messages", "tool_calls as a list of objects", call);
        if (!call.contains("type")) call["type"] = "function";
        if (!call.contains("id")) call["id"] = id_of(made);
        ++made;
      }
    }
    if (message["role"] == "tool" && !message.contains("tool_call_id")) {
      message["tool_call_id"] = id_of(answered++);
    }
  }
}

}  // namespace

bool is_ollama_load(const Json& body) {
  for (const char* name : {"messages", "prompt"}) {
    const auto found = body.find(name);
    if (found != body.end() && !found->is_null() && !found->empty() && *found != "") return false;
  }
  return true;
}

TranslatedRequest translate_ollama_chat(const Json& given) {
  Fields fields(given);
  Json body;
  translate_common(fields, body);
  translate_options(fields, body);
  translate_logprobs(fields, /*is_chat=*/true, body);
  translate_think(fields, body);
  const Json* messages = fields.find("messages");
  if (!messages || !messages->is_array()) {
    refuse_type("messages", "a list of messages", messages ? *messages : Json());
  }
  body["messages"] = Json::array();
  for (const Json& message : *messages) body["messages"].push_back(translate_message(message));
  number_calls(body["messages"]);
  if (const Json* tools = fields.find("tools"); tools && !tools->empty()) body["tools"] = *tools;
  return {std::move(body), fields.unknown()};
}

OllamaGeneration translate_ollama_generation(const Json& given, bool has_template) {
  Fields fields(given);
  Json body;
  translate_common(fields, body);
  const bool is_chat = has_template && !fields.boolean("raw", false);
  translate_options(fields, body);
  translate_logprobs(fields, is_chat, body);
  for (const char* name : {"suffix", "template"}) {
    fields.refuse_unless(name, "", "is not supported; leave it out");
  }
  fields.refuse_unless("context", nullptr,
                       "is not supported: send the whole conversation to /api/chat");
  if (const Json* images = fields.find("images")) refuse_images(*images, "images");
  const auto prompt = fields.string("prompt");
  const auto system = fields.string("system");
  if (is_chat) {
    translate_think(fields, body);
    body["messages"] = Json::array();
    if (system && !system->empty()) {
      body["messages"].push_back({{"role", "system"}, {"content", *system}});
    }
    body["messages"].push_back({{"role", "user"}, {"content", prompt.value_or("")}});
  } else {
    fields.ignore("think");
    body["prompt"] = system.value_or("") + prompt.value_or("");
    // As of a chat: as many tokens as there is room for.
    if (!body.contains("max_tokens")) body["max_tokens"] = INT32_MAX;
  }
  return {is_chat, {std::move(body), fields.unknown()}};
}

}  // namespace colossal::server
