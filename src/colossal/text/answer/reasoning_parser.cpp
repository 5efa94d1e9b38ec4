#include "colossal/text/answer/reasoning_parser.h"

#include <algorithm>
#include <utility>

#include "colossal/text/answer/call_sections.h"

namespace colossal::text {
namespace {

size_t first_letter(std::string_view text) {
  return std::min(text.find_first_not_of(" \n\t\r"), text.size());
}

}  // namespace

ReasoningParser::ReasoningParser(ReasoningForm form, AnswerBegin begin)
    : markers_(reasoning_markers(form)) {
  place_ = markers_.begin.empty() || begin == AnswerBegin::after_reasoning ? Place::rest
           : begin == AnswerBegin::in_reasoning                            ? Place::reasoning
                                                                           : Place::before;
}

auto ReasoningParser::push(std::string_view text) -> Parts {
  Parts parts;
  held_ += text;
  if (place_ == Place::before || (place_ == Place::reasoning && !has_text_)) {
    // A model may repeat the marker with which its prompt has begun the reasoning.
    const size_t first = first_letter(held_);
    const std::string_view rest = std::string_view(held_).substr(first);
    if (rest.size() < markers_.begin.size() && markers_.begin.starts_with(rest)) return parts;
    if (rest.starts_with(markers_.begin)) {
      held_.erase(0, first + markers_.begin.size());
      place_ = Place::reasoning;
    } else if (place_ == Place::before) {
      place_ = Place::rest;
    }
  }
  if (place_ == Place::reasoning) {
    if (!has_text_) held_.erase(0, first_letter(held_));
    const size_t end = held_.find(markers_.end);
    size_t sure = end == held_.npos ? held_.size() - held_back(held_, markers_.end) : end;
    sure = std::string_view(held_).substr(0, sure).find_last_not_of(" \n\t\r") + 1;
    has_text_ = has_text_ || sure > 0;
    parts.reasoning = held_.substr(0, sure);
    if (end == held_.npos) {
      held_.erase(0, sure);
      return parts;
    }
    held_.erase(0, end + markers_.end.size());
    place_ = Place::after;
  }
  if (place_ == Place::after) {
    held_.erase(0, first_letter(held_));
    if (held_.empty()) return parts;
    place_ = Place::rest;
  }
  parts.rest = std::exchange(held_, "");
  return parts;
}

auto ReasoningParser::finish() -> Parts {
  Parts parts;
  if (place_ == Place::reasoning) {
    parts.reasoning = held_.substr(0, held_.find_last_not_of(" \n\t\r") + 1);
  } else if (place_ != Place::after) {
    parts.rest = held_;
  }
  held_.clear();
  return parts;
}

}  // namespace colossal::text
