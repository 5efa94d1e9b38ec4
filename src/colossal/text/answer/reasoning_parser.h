// Divides an answer into the model's reasoning and the rest, while the answer is streamed.
#pragma once

#include <string>
#include <string_view>

#include "colossal/text/answer/reasoning_form.h"

namespace colossal::text {

// Parses one answer, in a form with markers (not `harmony`). Not thread-safe.
class ReasoningParser {
 public:
  ReasoningParser(ReasoningForm form, AnswerBegin begin);

  struct Parts {
    std::string reasoning;
    std::string rest;  // what follows the reasoning, or an answer without reasoning
  };
  // Adds the next piece of the answer. Returns what is certain now. White space at both ends of the
  // reasoning, and between the reasoning and the rest, is dropped.
  Parts push(std::string_view text);
  // Call once at the end of the answer. Returns the text that push() held back.
  Parts finish();

  // Returns whether the reasoning has not ended, or may still begin.
  bool is_before_rest() const { return place_ != Place::rest; }
  // Returns whether the model reasons now.
  bool is_in_reasoning() const { return place_ == Place::reasoning; }

 private:
  enum class Place { before, reasoning, after, rest };

  CallMarkers markers_;
  Place place_;
  bool has_text_ = false;  // the reasoning has text
  std::string held_;       // text that was pushed and that is not returned
};

}  // namespace colossal::text
