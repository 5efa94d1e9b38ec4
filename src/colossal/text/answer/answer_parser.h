// Divides a model's answer into reasoning, content and tool calls, while the answer is streamed.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "colossal/text/answer/harmony_parser.h"
#include "colossal/text/answer/parsed_text.h"
#include "colossal/text/answer/reasoning_parser.h"
#include "colossal/text/answer/tool_call_parser.h"

namespace colossal::text {

// How an answer is written.
struct AnswerForm {
  ReasoningForm reasoning = ReasoningForm::none;
  AnswerBegin begin = AnswerBegin::anywhere;
  ToolCallForm calls = ToolCallForm::none;
  std::string tool{};                      // see ToolCallParser
  nlohmann::ordered_json tools = nullptr;  // see ToolCallParser
};

// Parses one answer of a model. Not thread-safe.
class AnswerParser {
 public:
  explicit AnswerParser(const AnswerForm& form);

  // Adds the next piece of the answer. Returns the parts that are certain now; see ReasoningParser,
  // ToolCallParser and HarmonyParser.
  ParsedText push(std::string_view text);
  // Call once at the end of the answer. Returns the text that push() held back.
  ParsedText finish();

  size_t num_calls() const;        // calls that have begun, complete or not
  size_t num_whole_calls() const;  // complete calls
  bool is_in_reasoning() const;    // the model reasons now

 private:
  ParsedText push_rest(ParsedText&& parsed, const std::string& rest);

  std::optional<HarmonyParser> harmony_;
  ReasoningParser reasoning_;
  ToolCallParser calls_;
};

}  // namespace colossal::text
