// Tool calls in texts of models, however a text is divided.
#include "colossal/text/answer/tool_call_parser.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace colossal::text {
namespace {

struct Read {
  std::string content;
  std::vector<std::pair<std::string, std::string>> calls;
  bool operator==(const Read&) const = default;
};

void add(Read& read, const ParsedText& parsed) {
  read.content += parsed.content;
  for (const ToolCallDelta& delta : parsed.calls) {
    if (delta.name) read.calls.emplace_back(*delta.name, "");
    ASSERT_EQ(delta.call + 1, read.calls.size());
    read.calls.back().second += delta.arguments;
  }
}

// Parses a text as a whole, in two pieces divided at any place, and in single bytes: results must
// be the same.
Read read(ToolCallForm form, const std::string& text,
          const nlohmann::ordered_json& tools = nullptr) {
  const auto read_pieces = [&](const std::vector<std::string>& pieces) {
    ToolCallParser parser(form, "named", tools);
    Read result;
    for (const std::string& piece : pieces) add(result, parser.push(piece));
    add(result, parser.finish());
    EXPECT_EQ(parser.num_calls(), result.calls.size());
    return result;
  };
  const Read whole = read_pieces({text});
  std::vector<std::string> bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    bytes.push_back(text.substr(i, 1));
    const Read parts = read_pieces({text.substr(0, i), text.substr(i)});
    EXPECT_EQ(parts, whole) << text << " at " << i << ": " << parts.content;
  }
  EXPECT_EQ(read_pieces(bytes), whole) << text;
  return whole;
}

TEST(ToolCallParser, ReadsHermes) {
  constexpr auto form = ToolCallForm::hermes;
  EXPECT_EQ(read(form, "no call <tool"), (Read{"no call <tool", {}}));
  EXPECT_EQ(read(form,
                 "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\\\"\"}}\n"
                 "</tool_call>\n<tool_call>{\"arguments\": {\"b\": [1, {}]}, \"name\": \"g\"}"
                 "</tool_call>\n"),
            (Read{"I look.", {{"f", "{\"a\": \"}\\\"\"}"}, {"g", "{\"b\": [1, {}]}"}}}));
  EXPECT_EQ(read(form, "<tool_call>{\"name\": \"f\"}</tool_call>"), (Read{"", {{"f", "{}"}}}));
  EXPECT_EQ(
      read(form, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>"),
      (Read{"", {{"f", "{\"a\": 1}"}}}));
  EXPECT_EQ(read(form, "<tool_call>nothing</tool_call>"),
            (Read{"<tool_call>nothing</tool_call>", {}}));
  EXPECT_EQ(read(form, "a <tool_call>{\"x\": 1}</tool_call>"),
            (Read{"a <tool_call>{\"x\": 1}</tool_call>", {}}));
  EXPECT_EQ(read(form, "<tool_call>{\"na"), (Read{"<tool_call>{\"na", {}}));
}

TEST(ToolCallParser, ReadsLlama) {
  constexpr auto form = ToolCallForm::llama_json;
  EXPECT_EQ(read(form, "An answer {\"name\": \"f\"}"), (Read{"An answer {\"name\": \"f\"}", {}}));
  EXPECT_EQ(read(form,
                 "{\"name\": \"f\", \"parameters\": {\"a\": 1}}; {\"name\": \"g\", "
                 "\"parameters\": {}}"),
            (Read{"", {{"f", "{\"a\": 1}"}, {"g", "{}"}}}));
  EXPECT_EQ(read(form,
                 "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": "
                 "{\"a\": null}}"),
            (Read{"", {{"f", "{\"a\": null}"}}}));
  EXPECT_EQ(read(form, " {\"answer\": 42}"), (Read{" {\"answer\": 42}", {}}));
}

TEST(ToolCallParser, ReadsMistral) {
  constexpr auto form = ToolCallForm::mistral;
  EXPECT_EQ(read(form,
                 "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", "
                 "\"arguments\": {}}]"),
            (Read{"", {{"f", "{\"a\": 1}"}, {"g", "{}"}}}));
  EXPECT_EQ(read(form, "ok [TOOL_CALLS]f{\"a\": {\"b\": 2}}[TOOL_CALLS]g[ARGS]{}"),
            (Read{"ok", {{"f", "{\"a\": {\"b\": 2}}"}, {"g", "{}"}}}));
  EXPECT_EQ(read(form, "[1, 2]"), (Read{"[1, 2]", {}}));
}

TEST(ToolCallParser, ReadsWhatGrammarsLeadTo) {
  EXPECT_EQ(read(ToolCallForm::list,
                 "[{\"name\": \"f\", \"parameters\": {\"a\": [1]}}, {\"name\": "
                 "\"g\", \"parameters\": {}}]"),
            (Read{"", {{"f", "{\"a\": [1]}"}, {"g", "{}"}}}));
  EXPECT_EQ(read(ToolCallForm::arguments, "{\"a\": \"x\"}"),
            (Read{"", {{"named", "{\"a\": \"x\"}"}}}));
  EXPECT_EQ(read(ToolCallForm::none, "<tool_call>"), (Read{"<tool_call>", {}}));
}

// Each text is a call in its form; with one part of it broken it is text, never half a call.
TEST(ToolCallParser, ReadsTheFormsOfOtherModels) {
  using Form = ToolCallForm;
  const auto tools = nlohmann::ordered_json::parse(R"([{"type": "function", "function": {
      "name": "f", "parameters": {"type": "object", "properties": {
          "a": {"type": "string"}, "n": {"type": "integer"}, "k": {"enum": ["1", "2"]},
          "r": {"$ref": "#/$defs/text"}}, "$defs": {"text": {"type": "string"}}}}}])");
  struct Case {
    Form form;
    std::string text;
    std::vector<std::pair<std::string, std::string>> calls;
  };
  const std::vector<Case> cases{
      {Form::deepseek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
       "\"x\"}\n"
       "```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {{"f", "{\"a\": \"x\"}"}, {"g", "{}"}}},
      {Form::deepseek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>",
       {{"f", "{\"a\": 1}"}}},
      {Form::kimi,
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
       "{\"a\": 1}<|tool_call_end|><|tool_calls_section_end|>",
       {{"f", "{\"a\": 1}"}}},
      {Form::glm,
       "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>7</arg_value>\n<arg_key>n</arg_key>\n"
       "<arg_value>7</arg_value>\n<arg_key>z</arg_key>\n<arg_value>{\"b\": [1]}</arg_value>\n"
       "</tool_call>",
       {{"f", R"({"a":"7","n":7,"z":{"b":[1]}})"}}},
      {Form::qwen_xml,
       "<tool_call>\n<function=f>\n<parameter=a>\n<b>\n\"7\"\n</parameter>\n<parameter=n>\n12\n"
       "</parameter>\n<parameter=k>\n1\n</parameter>\n<parameter=r>\n[]\n</parameter>\n"
       "<parameter=u>\nTrue\n</parameter>\n</function>\n</tool_call>",
       {{"f", R"({"a":"<b>\n\"7\"","n":12,"k":"1","r":"[]","u":true})"}}},
      {Form::gemma,
       "<start_function_call>call:f{a:<escape>x, {y}<escape>,n:-1.5,l:[1,<escape>b<escape>],"
       "o:{k:true}}<end_function_call>",
       {{"f", R"({"a":"x, {y}","n":-1.5,"l":[1,"b"],"o":{"k":true}})"}}},
      {Form::gemma,
       "<|tool_call>call:f{a:<|\"|>x\"<|\"|>,b:null}<tool_call|>",
       {{"f", R"({"a":"x\"","b":null})"}}},
      {Form::tool_code,
       "```tool_code\nprint(f(a='x\\n', n=[1, None]))\n```",
       {{"f", R"({"a":"x\n","n":[1,null]})"}}},
      {Form::python_list,
       "[f(a=\"x\", o={'k': (1, 2)}), g()]",
       {{"f", R"({"a":"x","o":{"k":[1,2]}})"}, {"g", "{}"}}},
      {Form::marked_python,
       "<|tool_call_start|>[f(a=\"x\")]<|tool_call_end|>",
       {{"f", R"({"a":"x"})"}}},
      {Form::command_r,
       "Action: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": "
       "{\"a\": \"```\"}\n    }\n]```",
       {{"f", "{\"a\": \"```\"}"}}},
      {Form::command_r7b,
       "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": "
       "{\"a\": 1}}\n]<|END_ACTION|>",
       {{"f", "{\"a\": 1}"}}},
      {Form::phi,
       "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]<|/tool_call|>",
       {{"f", "{\"a\": 1}"}}},
      {Form::phi,
       "functools[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]",
       {{"f", "{\"a\": 1}"}}}};
  for (const Case& each : cases) {
    EXPECT_EQ(read(each.form, each.text, tools), (Read{"", each.calls})) << each.text;
    if (each.form == Form::python_list) continue;
    EXPECT_EQ(read(each.form, "I look. " + each.text + "\n", tools), (Read{"I look.", each.calls}));
    // Without each of its brackets in turn, the text is whole calls or whole text.
    for (size_t i = 0; i < each.text.size(); ++i) {
      if (std::string_view("{}[]()<>").find(each.text[i]) == std::string_view::npos) continue;
      const std::string broken = each.text.substr(0, i) + each.text.substr(i + 1);
      const Read found = read(each.form, broken, tools);
      if (found.calls.empty()) {
        EXPECT_EQ(found.content, broken);
      }
      for (const auto& [name, arguments] : found.calls) {
        EXPECT_TRUE(nlohmann::json::parse(arguments, nullptr, false).is_object()) << broken;
      }
    }
  }
}

// The arguments must be a JSON object, whole.
TEST(ToolCallParser, ACallWithBrokenArgumentsIsText) {
  for (const char* call :
       {R"({"name": "f", "arguments": {a: x}})", R"({"name": "f", "arguments": {"a": "x",}})",
        R"({"name": "f", "arguments": {"a": True}})", R"({"name": "f", "arguments": {"a": [1}})",
        R"({"name": "f", "arguments": {"a": "x"})", R"({"name": "f", "arguments": [1]})",
        R"({"name": "f", "arguments": "x"})", R"({"name": "f", "arguments": {"a": "\ud83d"}})",
        R"({"name": "", "arguments": {}})"}) {
    const std::string text = fmt::format("<tool_call>\n{}\n</tool_call>", call);
    EXPECT_EQ(read(ToolCallForm::hermes, text), (Read{text, {}}));
    EXPECT_EQ(
        read(ToolCallForm::hermes, "a " + text + "\n<tool_call>{\"name\": \"g\"}</tool_call>"),
        (Read{"a " + text, {{"g", "{}"}}}));
    EXPECT_EQ(read(ToolCallForm::llama_json, call), (Read{call, {}}));
    EXPECT_EQ(read(ToolCallForm::mistral, fmt::format("[TOOL_CALLS][{}]", call)),
              (Read{fmt::format("[TOOL_CALLS][{}]", call), {}}));
  }
  EXPECT_EQ(read(ToolCallForm::hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1"),
            (Read{"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1", {}}));
  EXPECT_EQ(read(ToolCallForm::hermes, "<tool_call><tool_call>{\"name\": \"f\"}</tool_call>"),
            (Read{"<tool_call>", {{"f", "{}"}}}));
}

TEST(ToolCallParser, TakesTheFirstOfSeveralArguments) {
  EXPECT_EQ(
      read(ToolCallForm::hermes,
           "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"parameters\": {\"b\": 2}, "
           "\"arguments\": null}</tool_call>"),
      (Read{"", {{"f", "{\"a\": 1}"}}}));
}

TEST(ToolCallParser, KeepsWhatStandsBeforeNoCall) {
  EXPECT_EQ(read(ToolCallForm::llama_json, " <|python_tag|> print(1)"),
            (Read{" <|python_tag|> print(1)", {}}));
  EXPECT_EQ(read(ToolCallForm::llama_json, "  <|python"), (Read{"  <|python", {}}));
  EXPECT_EQ(read(ToolCallForm::list, " [ 1]"), (Read{" [ 1]", {}}));
  EXPECT_EQ(read(ToolCallForm::mistral, "[TOOL_CALLS]  [1]"), (Read{"[TOOL_CALLS]  [1]", {}}));
  EXPECT_EQ(read(ToolCallForm::mistral, "[TOOL_CALLS]  f  "), (Read{"[TOOL_CALLS]  f  ", {}}));
}

// Pieces of so many bytes. Returns the seconds that the thread computed.
double seconds_to_read(ToolCallForm form, const std::string& text, size_t piece, Read& result) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double before = now();
  ToolCallParser parser(form, "named", nullptr);
  for (size_t i = 0; i < text.size(); i += piece) add(result, parser.push(text.substr(i, piece)));
  add(result, parser.finish());
  return now() - before;
}

// Work that grew with the square of the text would take minutes.
TEST(ToolCallParser, LongAnswersTakeLinearTime) {
  constexpr int kMany = 50'000;
  std::string arguments = "{", calls, list;
  for (int i = 0; i < kMany; ++i) {
    arguments += fmt::format("{}\"key {}\": {}", i > 0 ? ", " : "", i, i);
    list += fmt::format("{}{{\"name\": \"f\", \"arguments\": {{}}}}", i > 0 ? ", " : "");
    calls += "<tool_call>{\"name\": \"f\"}</tool_call>\n";
  }
  arguments += "}";
  const std::string call = "{\"name\": \"f\", \"arguments\": " + arguments + "}";
  const std::string long_text(size_t{20} * kMany, 'x'), spaces(size_t{20} * kMany, ' ');
  struct Case {
    ToolCallForm form;
    std::string text;
    size_t calls;
    std::string first_arguments;
  };
  for (const Case& each : std::vector<Case>{
           {ToolCallForm::hermes, "<tool_call>" + call + "</tool_call>", 1, arguments},
           {ToolCallForm::llama_json, call, 1, arguments},
           {ToolCallForm::mistral, "[TOOL_CALLS][" + call + "]", 1, arguments},
           {ToolCallForm::mistral, "[TOOL_CALLS]f" + arguments, 1, arguments},
           {ToolCallForm::list, "[" + call + "]", 1, arguments},
           {ToolCallForm::arguments, arguments, 1, arguments},
           {ToolCallForm::hermes, calls, kMany, "{}"},
           {ToolCallForm::mistral, "[TOOL_CALLS][" + list + "]", kMany, "{}"},
           {ToolCallForm::hermes, "<tool_call>" + long_text, 0, ""},
           {ToolCallForm::hermes, "<tool_call>{" + spaces + "x", 0, ""},
           {ToolCallForm::mistral, "[TOOL_CALLS]" + long_text, 0, ""},
           {ToolCallForm::mistral, "[TOOL_CALLS]" + spaces + "x", 0, ""},
           {ToolCallForm::llama_json, spaces + "<|python_tag|>" + spaces + "x", 0, ""},
           {ToolCallForm::list, spaces + "[" + spaces + "x", 0, ""}}) {
    for (const size_t piece : {size_t{1}, size_t{3}, each.text.size()}) {
      SCOPED_TRACE(fmt::format("{}..., pieces of {}", each.text.substr(0, 40), piece));
      Read result;
      EXPECT_LT(seconds_to_read(each.form, each.text, piece, result), 5);
      ASSERT_EQ(result.calls.size(), each.calls);
      if (each.calls == 0) {
        EXPECT_EQ(result.content, each.text);
      } else {
        EXPECT_EQ(result.calls.front().second, each.first_arguments);
        EXPECT_EQ(result.content, "");
      }
    }
  }
}

TEST(ToolCallParser, KnowsTheFormOfATemplate) {
  EXPECT_EQ(detect_tool_call_form("{{ messages }} <tool_call>"), ToolCallForm::none);
  EXPECT_EQ(detect_tool_call_form("{% if tools %}<tool_call>"), ToolCallForm::hermes);
  EXPECT_EQ(detect_tool_call_form("{% if tools %}[TOOL_CALLS]"), ToolCallForm::mistral);
  EXPECT_EQ(detect_tool_call_form("{% if tools %}{\"name\": f, \"parameters\": p} ipython"),
            ToolCallForm::llama_json);
  EXPECT_EQ(detect_tool_call_form("{% if tools %}"), ToolCallForm::none);
}

}  // namespace
}  // namespace colossal::text
