#include "colossal/text/answer/tool_call_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "colossal/text/answer/json_call_reader.h"
#include "colossal/text/answer/literal_reader.h"

namespace colossal::text {
namespace {

using Json = nlohmann::ordered_json;
using Calls = std::vector<ToolCall>;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \n\t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \n\t\r") + 1 - first);
}

bool skip(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

bool skip_end(std::string_view& text, std::string_view what) {
  if (what.empty() || !text.ends_with(what)) return false;
  text.remove_suffix(what.size());
  return true;
}

// Removes the text up to and including `end`, and returns what precedes `end`; nullopt if there is
// no `end`.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const size_t found = text.find(end);
  if (found == text.npos) return std::nullopt;
  const std::string_view taken = text.substr(0, found);
  text.remove_prefix(found + end.size());
  return taken;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.find_first_of(" \n\t\r{}[]<>\"") == name.npos;
}

// Reads {...}, or [{...}, ...].
std::optional<Calls> read_json_calls(std::string_view text) {
  text = trimmed(text);
  const bool is_list = skip(text, "[");
  Calls calls;
  do {
    CallReader reader;
    auto state = CallReader::State::goes_on;
    size_t length = 0;
    while (length < text.size() && state == CallReader::State::goes_on) {
      state = reader.push(text[length++]);
    }
    if (state != CallReader::State::done) return std::nullopt;
    calls.push_back({*reader.name(), reader.arguments()});
    text = trimmed(text.substr(length));
  } while (is_list && skip(text, ","));
  if (is_list && !skip(text, "]")) return std::nullopt;
  return trimmed(text).empty() ? std::optional(calls) : std::nullopt;
}

// Reads a list or an object after the marker, or a name, perhaps the call's id, and its arguments.
std::optional<Calls> read_mistral(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('{') || (text.starts_with('[') && !text.starts_with("[ARGS]"))) {
    return read_json_calls(text);
  }
  const size_t brace = text.find('{');
  if (brace == text.npos) return std::nullopt;
  std::string_view name = text.substr(0, brace);
  name = trimmed(name.substr(0, std::min(name.find("[ARGS]"), name.find("[CALL_ID]"))));
  const std::string_view arguments = text.substr(brace);
  if (!is_name(name) || !is_json_object(arguments)) return std::nullopt;
  return Calls{{std::string(name), std::string(arguments)}};
}

// The type that a tool's schema gives an argument; null if unknown.
class ArgumentTypes {
 public:
  ArgumentTypes(const Json& tools, std::string_view name) {
    if (!tools.is_array()) return;
    for (const Json& tool : tools) {
      const Json* function = member(&tool, "function");
      const Json* found = member(function, "name");
      if (found && found->is_string() && found->get_ref<const std::string&>() == name) {
        schema_ = member(function, "parameters");
      }
    }
  }

  // Returns the JSON value that an argument without quotes stands for.
  Json value_of(const std::string& key, std::string_view text) const {
    const Json* schema = resolved(member(member(schema_, "properties"), key));
    if (schema && is_text(*schema)) return std::string(text);
    Json value = Json::parse(trimmed(text), nullptr, /*allow_exceptions=*/false);
    if (!value.is_discarded()) return value;
    const auto literal = read_python_literal(trimmed(text));
    return literal ? *literal : Json(std::string(text));
  }

 private:
  static const Json* member(const Json* json, std::string_view key) {
    if (!json || !json->is_object()) return nullptr;
    const auto found = json->find(key);
    return found == json->end() ? nullptr : &*found;
  }
  const Json* resolved(const Json* schema) const {
    const Json* reference = member(schema, "$ref");
    if (!reference || !reference->is_string()) return schema;
    const std::string& path = reference->get_ref<const std::string&>();
    const size_t slash = path.rfind('/');
    if (slash == path.npos) return nullptr;
    const std::string name = path.substr(slash + 1);
    const Json* found = member(member(schema_, "$defs"), name);
    return found ? found : member(member(schema_, "definitions"), name);
  }
  // Whether all values of the schema are strings.
  static bool is_text(const Json& schema) {
    const Json* type = member(&schema, "type");
    if (type) return *type == "string";
    const Json* values = member(&schema, "enum");
    return values && values->is_array() && !values->empty() &&
           std::ranges::all_of(*values, [](const Json& value) { return value.is_string(); });
  }

  const Json* schema_ = nullptr;
};

std::string dumped(const Json& arguments) {
  return arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// name, then pairs of <arg_key>...</arg_key> and <arg_value>...</arg_value>.
std::optional<Calls> read_glm(std::string_view text, const Json& tools) {
  const size_t first = std::min(text.find("<arg_key>"), text.size());
  const std::string name(trimmed(text.substr(0, first)));
  if (!is_name(name)) return std::nullopt;
  const ArgumentTypes types(tools, name);
  Json arguments = Json::object();
  for (text = trimmed(text.substr(first)); !text.empty(); text = trimmed(text)) {
    if (!skip(text, "<arg_key>")) return std::nullopt;
    const auto key = take_until(text, "</arg_key>");
    text = trimmed(text);
    if (!key || !skip(text, "<arg_value>")) return std::nullopt;
    const auto value = take_until(text, "</arg_value>");
    if (!value) return std::nullopt;
    const std::string written(trimmed(*key));
    arguments[written] = types.value_of(written, *value);
  }
  return Calls{{name, dumped(arguments)}};
}

// Text of a value between tags, each on a line of its own.
std::string_view without_line_ends(std::string_view text) {
  skip(text, "\n");
  skip_end(text, "\n");
  return text;
}

// One or more of <function=name>, <parameter=key> value </parameter> ..., </function>.
std::optional<Calls> read_qwen_xml(std::string_view text, const Json& tools) {
  Calls calls;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    if (!skip(text, "<function=")) return std::nullopt;
    const auto name = take_until(text, ">");
    if (!name || !is_name(*name)) return std::nullopt;
    const ArgumentTypes types(tools, *name);
    Json arguments = Json::object();
    for (text = trimmed(text); !skip(text, "</function>"); text = trimmed(text)) {
      if (!skip(text, "<parameter=")) return std::nullopt;
      const auto key = take_until(text, ">");
      const auto value = key ? take_until(text, "</parameter>") : std::nullopt;
      if (!value) return std::nullopt;
      arguments[std::string(*key)] = types.value_of(std::string(*key), without_line_ends(*value));
    }
    calls.push_back({std::string(*name), dumped(arguments)});
  }
  return calls.empty() ? std::nullopt : std::optional(calls);
}

struct CallDelimiters {
  std::string_view begin, between, end;
};

// Each call between its markers: a name and arguments.
std::optional<Calls> read_marked_calls(std::string_view text, const CallDelimiters& markers) {
  Calls calls;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    if (!skip(text, markers.begin)) return std::nullopt;
    auto arguments = take_until(text, markers.end);
    // The last end marker may be missing, because the answer ended there.
    if (!arguments) arguments = std::exchange(text, {});
    const auto before = take_until(*arguments, markers.between);
    if (!before) return std::nullopt;
    std::string_view name = trimmed(*before), body = trimmed(*arguments);
    // DeepSeek V3 and R1: the name stands after the type, and the arguments in a fence.
    if (const size_t fence = body.find("```json"); fence != body.npos) {
      name = trimmed(body.substr(0, fence));
      body.remove_prefix(fence + 7);
      if (!skip_end(body, "```")) return std::nullopt;
      body = trimmed(body);
    }
    // Kimi K2: functions.name:0
    if (skip(name, "functions.")) name = name.substr(0, name.rfind(':'));
    if (!is_name(name) || !is_json_object(body)) return std::nullopt;
    calls.push_back({std::string(name), std::string(body)});
  }
  return calls.empty() ? std::nullopt : std::optional(calls);
}

std::optional<Calls> of_literals(const std::optional<std::vector<LiteralCall>>& read) {
  if (!read) return std::nullopt;
  Calls calls;
  for (const LiteralCall& call : *read) calls.push_back({call.name, call.arguments});
  return calls;
}

// Command R calls this tool where it calls none.
void remove_direct_answers(std::optional<Calls>& calls) {
  if (!calls) return;
  std::erase_if(*calls, [](const ToolCall& call) {
    return call.name == "directly_answer" || call.name == "directly-answer";
  });
}

}  // namespace

std::optional<std::vector<ToolCall>> read_tool_calls(ToolCallForm form, std::string_view section,
                                                     const Json& tools) {
  using Form = ToolCallForm;
  std::string_view body = section;
  std::string_view begin;
  for (const CallMarkers& markers : call_markers(form)) {
    if (!skip(body, markers.begin)) continue;
    begin = markers.begin;
    body = trimmed(body);
    skip_end(body, markers.end);
    break;
  }
  switch (form) {
    case Form::hermes:
    case Form::llama_json:
    case Form::phi:
      return read_json_calls(body);
    case Form::command_r:
    case Form::command_r7b: {
      auto calls = read_json_calls(body);
      remove_direct_answers(calls);
      return calls;
    }
    case Form::mistral:
      return read_mistral(body);
    case Form::deepseek:
    case Form::kimi: {
      const bool is_kimi = form == Form::kimi;
      const std::string_view call = call_markers(form)[1].begin;
      const CallDelimiters markers{call,
                                   is_kimi ? "<|tool_call_argument_begin|>" : "<｜tool▁sep｜>",
                                   call_markers(form)[1].end};
      return read_marked_calls(begin == call ? section : body, markers);
    }
    case Form::glm:
      return read_glm(body, tools);
    case Form::qwen_xml:
      return read_qwen_xml(begin == "<function=" ? section : body, tools);
    case Form::gemma: {
      const auto call = read_gemma_call(body, begin == "<|tool_call>" ? "<|\"|>" : "<escape>");
      if (!call) return std::nullopt;
      return Calls{{call->name, call->arguments}};
    }
    case Form::tool_code:
    case Form::python_list:
    case Form::marked_python:
      return of_literals(read_python_calls(body));
    default:
      return std::nullopt;
  }
}

}  // namespace colossal::text
