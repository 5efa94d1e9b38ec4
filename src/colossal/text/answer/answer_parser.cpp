#include "colossal/text/answer/answer_parser.h"

#include <utility>

namespace colossal::text {
namespace {

bool is_harmony(const AnswerForm& form) {
  return form.reasoning == ReasoningForm::harmony || form.calls == ToolCallForm::harmony;
}

void append(ParsedText& parsed, ParsedText&& more) {
  parsed.reasoning += more.reasoning;
  parsed.content += more.content;
  for (ToolCallDelta& call : more.calls) parsed.calls.push_back(std::move(call));
}

}  // namespace

AnswerParser::AnswerParser(const AnswerForm& form)
    : reasoning_(form.reasoning, form.begin),
      calls_(form.calls == ToolCallForm::harmony ? ToolCallForm::none : form.calls, form.tool,
             form.tools) {
  if (is_harmony(form)) harmony_.emplace(form.calls == ToolCallForm::harmony);
}

ParsedText AnswerParser::push_rest(ParsedText&& parsed, const std::string& rest) {
  if (!rest.empty()) append(parsed, calls_.push(rest));
  return std::move(parsed);
}

// Harmony's channels come first. Within its content there may be calls that a grammar forces.
ParsedText AnswerParser::push(std::string_view text) {
  if (harmony_) {
    ParsedText parsed = harmony_->push(text);
    return push_rest(std::move(parsed), std::exchange(parsed.content, ""));
  }
  ReasoningParser::Parts parts = reasoning_.push(text);
  return push_rest({.reasoning = std::move(parts.reasoning), .content = {}, .calls = {}},
                   parts.rest);
}

ParsedText AnswerParser::finish() {
  ParsedText parsed;
  if (harmony_) {
    parsed = harmony_->finish();
    parsed = push_rest(std::move(parsed), std::exchange(parsed.content, ""));
  } else {
    ReasoningParser::Parts parts = reasoning_.finish();
    parsed.reasoning = std::move(parts.reasoning);
    parsed = push_rest(std::move(parsed), parts.rest);
  }
  append(parsed, calls_.finish());
  return parsed;
}

size_t AnswerParser::num_calls() const {
  return calls_.num_calls() + (harmony_ ? harmony_->num_calls() : 0);
}

size_t AnswerParser::num_whole_calls() const {
  return calls_.num_whole_calls() + (harmony_ ? harmony_->num_calls() : 0);
}

bool AnswerParser::is_in_reasoning() const {
  return harmony_ ? harmony_->is_in_reasoning() : reasoning_.is_in_reasoning();
}

}  // namespace colossal::text
