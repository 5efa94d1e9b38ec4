#include "colossal/text/answer/call_sections.h"

#include <algorithm>
#include <utility>

#include "colossal/text/answer/tool_call_reader.h"

namespace colossal::text {

size_t held_back(std::string_view text, std::string_view marker) {
  for (size_t length = std::min(text.size(), marker.size() - 1); length > 0; --length) {
    if (text.ends_with(marker.substr(0, length))) return length;
  }
  return 0;
}

CallSections::CallSections(ToolCallForm form, nlohmann::ordered_json tools)
    : form_(form), tools_(std::move(tools)) {
  place_ = form == ToolCallForm::none ? Place::only_content
           : is_whole_answer()        ? Place::at_begin
                                      : Place::content;
}

// Whether calls are the whole answer, and no text precedes them.
bool CallSections::is_whole_answer() const {
  return form_ == ToolCallForm::llama_json || form_ == ToolCallForm::python_list;
}

// Whether a section ends where its JSON ends; the end marker, if there is one, follows.
bool CallSections::is_json() const {
  switch (form_) {
    case ToolCallForm::hermes:
    case ToolCallForm::llama_json:
    case ToolCallForm::mistral:
    case ToolCallForm::command_r:
    case ToolCallForm::command_r7b:
    case ToolCallForm::phi:
      return true;
    default:
      return false;
  }
}

void CallSections::add_content(std::string_view text, ParsedText& out) {
  const size_t last = text.find_last_not_of(" \n\t\r");
  if (last == text.npos) {
    spaces_ += text;
    return;
  }
  out.content += spaces_;
  out.content += text.substr(0, last + 1);
  spaces_ = text.substr(last + 1);
}

void CallSections::begin_section(std::string_view marker, std::string_view end) {
  section_ += marker;
  begin_length_ = section_.size();
  end_ = end;
  has_begun_ = false;
  json_ = {};
  place_ = Place::section;
}

bool CallSections::read_content(std::string_view& rest, ParsedText& out) {
  size_t begin = rest.npos, held = 0;
  CallMarkers found;
  for (const CallMarkers& markers : call_markers(form_)) {
    held = std::max(held, held_back(rest, markers.begin));
    const size_t at = rest.find(markers.begin);
    if (at >= begin) continue;
    begin = at;
    found = markers;
  }
  if (begin == rest.npos) {
    add_content(rest.substr(0, rest.size() - held), out);
    rest.remove_prefix(rest.size() - held);
    return false;
  }
  add_content(rest.substr(0, begin), out);
  rest.remove_prefix(begin + found.begin.size());
  section_ = std::exchange(spaces_, "");
  begin_section(found.begin, found.end);
  return true;
}

// Reads the beginning of an answer that is calls as a whole, or none.
bool CallSections::read_begin(std::string_view& rest, ParsedText& out) {
  const size_t first = std::min(rest.find_first_not_of(" \n\t\r"), rest.size());
  section_ += rest.substr(0, first);
  rest.remove_prefix(first);
  if (rest.empty()) return false;
  for (const CallMarkers& markers : call_markers(form_)) {
    if (rest.size() < markers.begin.size() && markers.begin.starts_with(rest)) return false;
    if (!rest.starts_with(markers.begin)) continue;
    rest.remove_prefix(markers.begin.size());
    begin_section(markers.begin, markers.end);
    return true;
  }
  begin_section("", "");
  if (rest[0] != (form_ == ToolCallForm::llama_json ? '{' : '[')) give_up(out);
  return true;
}

CallSections::Section CallSections::push_json(char byte) {
  const std::string_view opens = form_ == ToolCallForm::llama_json ? "{" : "{[";
  if (!has_begun_) {
    if (is_json_space(byte)) return Section::goes_on;
    // Mistral's name precedes its arguments, which are an object.
    const bool is_first = section_.find_last_not_of(" \n\t\r", section_.size() - 2) < begin_length_;
    has_begun_ =
        form_ == ToolCallForm::mistral && !is_first ? byte == '{' : opens.find(byte) != opens.npos;
    if (!has_begun_) return form_ == ToolCallForm::mistral ? Section::goes_on : Section::wrong;
  }
  json_.push(byte);
  if (json_.over()) return Section::over;
  const bool ends = !json_.in_string() && !end_.empty() && section_.ends_with(end_);
  return ends ? Section::wrong : Section::goes_on;
}

CallSections::Section CallSections::push(char byte) {
  section_ += byte;
  if (is_json()) return push_json(byte);
  if (!end_.empty()) return section_.ends_with(end_) ? Section::over : Section::goes_on;
  return Section::goes_on;  // until the answer ends
}

void CallSections::read_section(std::string_view& rest, ParsedText& out) {
  while (!rest.empty()) {
    const Section state = push(rest[0]);
    // What follows a marker that begins no JSON may be another marker.
    if (state == Section::wrong && !has_begun_) {
      section_.pop_back();
      return give_up(out);
    }
    rest.remove_prefix(1);
    if (state == Section::goes_on) continue;
    return state == Section::over ? end_section(out) : give_up(out);
  }
}

void CallSections::end_section(ParsedText& out) {
  const size_t first = section_.find_first_not_of(" \n\t\r");
  auto calls = read_tool_calls(form_, std::string_view(section_).substr(first), tools_);
  if (!calls) return give_up(out);
  for (ToolCall& call : *calls) {
    out.calls.push_back(
        {.call = begun++, .name = std::move(call.name), .arguments = std::move(call.arguments)});
  }
  whole = begun;
  section_.clear();
  place_ = Place::after_section;
}

void CallSections::give_up(ParsedText& out) {
  add_content(std::exchange(section_, ""), out);
  place_ = is_whole_answer() ? Place::only_content : Place::content;
}

bool CallSections::read_after(std::string_view& rest) {
  const size_t first = std::min(rest.find_first_not_of(" \n\t\r"), rest.size());
  spaces_ += rest.substr(0, first);
  rest.remove_prefix(first);
  if (rest.empty()) return false;
  if (is_json() && !end_.empty()) {
    if (rest.size() < end_.size() && end_.starts_with(rest)) return false;
    if (rest.starts_with(end_)) {
      rest.remove_prefix(end_.size());
      spaces_.clear();
    }
  } else if (form_ == ToolCallForm::llama_json && rest[0] == ';') {
    rest.remove_prefix(1);
    spaces_.clear();
    place_ = Place::at_begin;
    return true;
  }
  place_ = is_whole_answer() ? Place::only_content : Place::content;
  return true;
}

bool CallSections::read(std::string_view& rest, ParsedText& out) {
  switch (place_) {
    case Place::content:
      return read_content(rest, out);
    case Place::section:
      read_section(rest, out);
      return true;
    case Place::after_section:
      return read_after(rest);
    case Place::at_begin:
      return read_begin(rest, out);
    case Place::only_content:
      out.content += std::exchange(spaces_, "");
      out.content += rest;
      rest = {};
      return false;
  }
  return false;
}

void CallSections::finish(std::string_view rest, ParsedText& out) {
  // A section may lack its end marker. GLM's calls then cannot be told from the beginning of one.
  if (place_ == Place::section && !is_json() && form_ != ToolCallForm::glm) end_section(out);
  if (place_ == Place::after_section) return;
  add_content(std::exchange(section_, ""), out);
  add_content(rest, out);
  if (begun == 0) out.content += std::exchange(spaces_, "");
}

}  // namespace colossal::text
