// Tool calls in texts of models, however a text is divided.
#include "colossal/text/tool_call_parser.h"

#include <gmock/gmock.h>

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
Read read(ToolCallForm form, const std::string& text) {
  const auto read_pieces = [&](const std::vector<std::string>& pieces) {
    ToolCallParser parser(form, "named");
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
  EXPECT_EQ(read(form, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1"),
            (Read{"", {{"f", "{\"a\": 1"}}}));
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

TEST(ToolCallParser, KnowsTheFormOfATemplate) {
  EXPECT_EQ(find_tool_call_form("{{ messages }} <tool_call>"), ToolCallForm::none);
  EXPECT_EQ(find_tool_call_form("{% if tools %}<tool_call>"), ToolCallForm::hermes);
  EXPECT_EQ(find_tool_call_form("{% if tools %}[TOOL_CALLS]"), ToolCallForm::mistral);
  EXPECT_EQ(find_tool_call_form("{% if tools %}{\"name\": f, \"parameters\": p} ipython"),
            ToolCallForm::llama_json);
  EXPECT_EQ(find_tool_call_form("{% if tools %}"), ToolCallForm::none);
}

}  // namespace
}  // namespace colossal::text
