#include "colossal/text/answer/json_call_reader.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace colossal::text {

bool is_json_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

bool is_json_object(std::string_view text) {
  const size_t first = text.find_first_not_of(" \n\t\r");
  return first != text.npos && text[first] == '{' && nlohmann::json::accept(text);
}

bool ValueScanner::push(char byte) {
  if (over_) return false;
  if (in_string_) {
    if (!std::exchange(escaped_, !escaped_ && byte == '\\') && byte == '"') {
      in_string_ = false;
      over_ = depth_ == 0;
    }
    return true;
  }
  if (depth_ == 0 && begun_ && (byte == ',' || byte == '}' || byte == ']' || is_json_space(byte))) {
    over_ = true;
    return false;
  }
  begun_ = true;
  if (byte == '"') in_string_ = true;
  if (byte == '{' || byte == '[') ++depth_;
  if (byte == '}' || byte == ']') over_ = --depth_ <= 0;
  return true;
}

CallReader::State CallReader::push(char byte) {
  text_ += byte;
  if (place_ != Place::value && place_ != Place::key && is_json_space(byte)) return State::goes_on;
  switch (place_) {
    case Place::before:
      place_ = Place::key_or_end;
      return byte == '{' ? State::goes_on : State::wrong;
    case Place::key_or_end:
      if (byte == '}') return end();
      if (byte != '"') return State::wrong;
      place_ = Place::key;
      key_.clear();
      return State::goes_on;
    case Place::key:
      if (byte == '"') {
        place_ = Place::colon;
      } else {
        key_ += byte;
      }
      return State::goes_on;
    case Place::colon:
      place_ = Place::before_value;
      return byte == ':' ? State::goes_on : State::wrong;
    case Place::before_value:
      place_ = Place::value;
      scanner_ = {};
      value_.clear();
      [[fallthrough]];
    case Place::value:
      return push_value(byte);
    case Place::comma_or_end:
      if (byte == '}') return end();
      place_ = Place::key_or_end;
      return byte == ',' ? State::goes_on : State::wrong;
  }
  return State::wrong;
}

CallReader::State CallReader::push_value(char byte) {
  if (scanner_.push(byte)) {
    value_ += byte;
    // Arguments that are an object are available while they arrive. Others are converted when
    // they are complete, in end_value(). If there are several, the first are the call's.
    if (are_arguments() && !has_arguments_ && value_.front() == '{') arguments_ += byte;
    return scanner_.over() ? end_value() : State::goes_on;
  }
  const State ended = end_value();
  if (ended == State::wrong || is_json_space(byte)) return ended;
  text_.pop_back();
  return push(byte);
}

CallReader::State CallReader::end_value() {
  place_ = Place::comma_or_end;
  const nlohmann::json value = nlohmann::json::parse(value_, nullptr, false);
  if (value.is_discarded()) return State::wrong;
  if (key_ == "name" || key_ == "tool_name") {
    if (!value.is_string()) return State::wrong;
    name_ = value.get<std::string>();
  }
  if (!are_arguments() || has_arguments_) return State::goes_on;
  has_arguments_ = true;
  if (!value.is_object()) {
    // Some models write the object as a string, or null in its place.
    arguments_ = value.is_string() ? value.get<std::string>() : value.is_null() ? "{}" : value_;
    if (!is_json_object(arguments_)) return State::wrong;
  }
  return State::goes_on;
}

CallReader::State CallReader::end() {
  if (arguments_.empty()) arguments_ = "{}";
  return name_ && !name_->empty() ? State::done : State::wrong;
}

}  // namespace colossal::text
