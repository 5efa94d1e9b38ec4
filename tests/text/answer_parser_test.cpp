// Reasoning and calls in texts of models, however a text is divided.
#include "colossal/text/answer/answer_parser.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/temporary_directory.h"

namespace colossal::text {
namespace {

struct Read {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;
  bool operator==(const Read&) const = default;
};
void PrintTo(const Read& read, std::ostream* out) {
  *out << "reasoning {" << read.reasoning << "} content {" << read.content << "}";
  for (const auto& [name, arguments] : read.calls) *out << " " << name << " " << arguments;
}

void add(Read& read, const ParsedText& parsed) {
  read.reasoning += parsed.reasoning;
  read.content += parsed.content;
  for (const ToolCallDelta& delta : parsed.calls) {
    if (delta.name) read.calls.emplace_back(*delta.name, "");
    ASSERT_EQ(delta.call + 1, read.calls.size());
    read.calls.back().second += delta.arguments;
  }
}

// Parses a text as a whole, in two pieces divided at any place, and in single bytes: results must
// be the same.
Read read(const AnswerForm& form, const std::string& text) {
  const auto read_pieces = [&](const std::vector<std::string>& pieces) {
    AnswerParser parser(form);
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
    EXPECT_EQ(read_pieces({text.substr(0, i), text.substr(i)}), whole) << text << " at " << i;
  }
  EXPECT_EQ(read_pieces(bytes), whole) << text;
  return whole;
}

constexpr auto kThink = ReasoningForm::think;

TEST(AnswerParser, ReadsReasoningBetweenMarkers) {
  const AnswerForm form{.reasoning = kThink};
  EXPECT_EQ(read(form, "<think>\nI see <b>.\n</think>\n\nYes </think>"),
            (Read{"I see <b>.", "Yes </think>"}));
  EXPECT_EQ(read(form, "<think>\n\n</think>\n\nYes"), (Read{"", "Yes"}));
  EXPECT_EQ(read(form, " Yes <think>"), (Read{"", " Yes <think>"}));
  EXPECT_EQ(read(form, "<think>cut </thi"), (Read{"cut </thi", ""}));
  EXPECT_EQ(read(form, "<thi"), (Read{"", "<thi"}));
  EXPECT_EQ(read({.reasoning = ReasoningForm::mistral}, "[THINK]a[/THINK]b"), (Read{"a", "b"}));
  EXPECT_EQ(read({.reasoning = ReasoningForm::cohere}, "<|START_THINKING|>a<|END_THINKING|>b"),
            (Read{"a", "b"}));
  EXPECT_EQ(read({.reasoning = ReasoningForm::gemma}, "<|channel>thought\na\n<channel|>b"),
            (Read{"a", "b"}));
}

TEST(AnswerParser, ThePromptMayHaveBegunOrEndedTheReasoning) {
  const auto read_after = [](const char* prompt, const char* text) {
    return read({.reasoning = kThink, .begin = begin_of_answer(kThink, prompt)}, text);
  };
  EXPECT_EQ(read_after("user: <think>?\nassistant: <think>\n", "a </think> b"), (Read{"a", "b"}));
  EXPECT_EQ(read_after("assistant: <think>\n", "<think>\na</think>b"), (Read{"a", "b"}));
  EXPECT_EQ(read_after("assistant: <think>\n\n</think>\n\n", "<think>"), (Read{"", "<think>"}));
  EXPECT_EQ(read_after("user: what is <think>\nassistant: ", "b </think>"),
            (Read{"", "b </think>"}));
}

TEST(AnswerParser, CallsFollowTheReasoning) {
  const AnswerForm form{.reasoning = kThink, .calls = ToolCallForm::hermes};
  EXPECT_EQ(read(form,
                 "<think><tool_call>{\"name\": \"g\"}</think>\nok\n<tool_call>{\"name\": \"f\"}"
                 "</tool_call>"),
            (Read{"<tool_call>{\"name\": \"g\"}", "ok", {{"f", "{}"}}}));
  EXPECT_EQ(read({.reasoning = kThink, .calls = ToolCallForm::list},
                 "<think>a</think>[{\"name\": \"f\", \"parameters\": {\"a\": 1}}]"),
            (Read{"a", "", {{"f", "{\"a\": 1}"}}}));
}

TEST(AnswerParser, ReadsHarmony) {
  const AnswerForm form{.reasoning = ReasoningForm::harmony, .calls = ToolCallForm::harmony};
  EXPECT_EQ(read(form,
                 "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant<|channel|>final"
                 "<|message|>Yes <|b|>.<|return|>"),
            (Read{"I see.", "Yes <|b|>."}));
  EXPECT_EQ(
      read(form,
           "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary "
           "to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>"),
      (Read{"Look.", "", {{"f", "{\"a\": 1}"}}}));
  // The recipient may stand before the channel; the token that ends the answer is not in its text.
  EXPECT_EQ(read(form, " to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}"),
            (Read{"", "", {{"f", "{\"a\": 1}"}}}));
  EXPECT_EQ(read(form,
                 "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant "
                 "to=functions.f<|channel|>commentary<|message|>{}<|call|>"),
            (Read{"", "I look.", {{"f", "{}"}}}));
  const std::string broken = "<|channel|>commentary to=functions.f<|message|>{\"a\": 1";
  EXPECT_EQ(read(form, broken), (Read{"", broken}));
  EXPECT_EQ(read(form, "plain text"), (Read{"", "plain text"}));
  EXPECT_EQ(read(form, "<|channel|>final<|message|>cut"), (Read{"", "cut"}));
  EXPECT_EQ(
      read({.reasoning = ReasoningForm::harmony, .calls = ToolCallForm::arguments, .tool = "f"},
           "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>"
           "{\"x\": 1}"),
      (Read{"a", "", {{"f", "{\"x\": 1}"}}}));
}

// The forms are recognized in the templates, and answers that the templates render are found again.
TEST(AnswerParser, ReadsWhatPublishedTemplatesRender) {
  const test::TemporaryDirectory folder;
  const std::string file = (folder.path() / "answers.jsonl").string();
  const std::string command =
      fmt::format("'{0}/.venv/bin/python' '{0}/tests/text/answer_oracle.py' '{1}'",
                  COLOSSAL_TEST_SOURCE_DIR, file);
  ASSERT_EQ(std::system(command.c_str()), 0) << "the Python side failed";
  std::ifstream lines(file);
  int answers = 0;
  for (std::string line; std::getline(lines, line); ++answers) {
    const auto expected = nlohmann::ordered_json::parse(line);
    SCOPED_TRACE(expected["name"].get<std::string>());
    const auto source = expected["template"].get<std::string>();
    const ReasoningForm reasoning = detect_reasoning_form(source);
    const Read found =
        read({.reasoning = reasoning,
              .begin = begin_of_answer(reasoning, expected["prompt"].get<std::string>()),
              .calls = detect_tool_call_form(source),
              .tools = expected["tools"]},
             expected["answer"].get<std::string>());
    EXPECT_EQ(found.reasoning, expected["reasoning"].get<std::string>());
    EXPECT_EQ(found.content, expected["content"].get<std::string>());
    ASSERT_EQ(found.calls.size(), expected["calls"].size()) << expected["answer"];
    for (size_t i = 0; i < found.calls.size(); ++i) {
      EXPECT_EQ(found.calls[i].first, expected["calls"][i][0].get<std::string>());
      EXPECT_EQ(nlohmann::json::parse(found.calls[i].second),
                nlohmann::json::parse(expected["calls"][i][1].dump()));
    }
  }
  EXPECT_GT(answers, 30);
}

TEST(AnswerParser, KnowsTheFormOfATemplate) {
  EXPECT_EQ(detect_reasoning_form("{{ content.split('</think>')[-1] }}"), kThink);
  EXPECT_EQ(detect_reasoning_form("<|start|>assistant<|channel|>final<|message|>"),
            ReasoningForm::harmony);
  EXPECT_EQ(detect_reasoning_form("[THINK]{{ x }}[/THINK]"), ReasoningForm::mistral);
  EXPECT_EQ(detect_reasoning_form("<|im_start|>"), ReasoningForm::none);
  for (const ReasoningForm form : {ReasoningForm::none, kThink, ReasoningForm::harmony}) {
    EXPECT_EQ(reasoning_form_of(name_of(form)), form);
  }
  EXPECT_EQ(reasoning_form_of("deepseek_r1"), kThink);
  EXPECT_FALSE(reasoning_form_of("auto"));
  EXPECT_EQ(tool_call_form_of("hermes"), ToolCallForm::hermes);
  EXPECT_FALSE(tool_call_form_of("list"));
}

}  // namespace
}  // namespace colossal::text
