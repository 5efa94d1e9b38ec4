#include "colossal/text/answer/forced_calls.h"

#include <utility>

namespace colossal::text {

void ForcedCalls::begin(const std::string& name, ParsedText& out) {
  out.calls.push_back({.call = begun++, .name = name, .arguments = ""});
  named_ = true;
  given_ = 0;
}

void ForcedCalls::give(std::string_view arguments, ParsedText& out) {
  if (given_ >= arguments.size()) return;
  if (out.calls.empty() || out.calls.back().call != begun - 1) {
    out.calls.push_back({.call = begun - 1, .name = std::nullopt, .arguments = ""});
  }
  out.calls.back().arguments += arguments.substr(given_);
  given_ = arguments.size();
}

void ForcedCalls::end() {
  ++whole;
  named_ = false;
  place_ = Place::after;
}

void ForcedCalls::give_up(ParsedText& out) {
  if (!named_) out.content += before_ + call_.text();
  before_.clear();
  call_ = {};
  place_ = Place::only_content;
}

void ForcedCalls::push(char byte, ParsedText& out) {
  if (place_ == Place::arguments) {
    if (!value_.push(byte)) return;
    arguments_ += byte;
    give(arguments_, out);
    if (value_.over()) end();
    return;
  }
  const CallReader::State state = call_.push(byte);
  if (state == CallReader::State::wrong) return give_up(out);
  if (call_.name()) {
    if (!named_) begin(*call_.name(), out);
    give(call_.arguments(), out);
  }
  if (state == CallReader::State::done) end();
}

bool ForcedCalls::read(std::string_view& rest, ParsedText& out) {
  if (place_ == Place::only_content) {
    out.content += rest;
    rest = {};
    return false;
  }
  const char byte = rest[0];
  if (place_ == Place::call || place_ == Place::arguments) {
    push(byte, out);
  } else if (place_ == Place::after) {
    if (byte == ',' && !tool_) {
      before_.clear();
      call_ = {};
      place_ = Place::call;
    }
  } else if (is_json_space(byte)) {
    before_ += byte;
  } else if (tool_) {
    begin(*tool_, out);
    place_ = Place::arguments;
    return true;
  } else if (byte == '[') {
    before_ += byte;
    place_ = Place::call;
  } else {
    give_up(out);
    return true;
  }
  rest.remove_prefix(1);
  return true;
}

void ForcedCalls::finish(std::string_view rest, ParsedText& out) {
  if (place_ == Place::before || place_ == Place::call) give_up(out);
  if (place_ == Place::only_content) out.content += rest;
}

}  // namespace colossal::text
