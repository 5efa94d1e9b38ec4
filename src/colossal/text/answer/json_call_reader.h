// Reads tool calls that are JSON objects: {"name": ..., "arguments": {...}}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

// Finds the end of a JSON value, byte by byte. Does not check that the value is valid.
class ValueScanner {
 public:
  // Returns false if the value ended before this byte, as numbers do.
  bool push(char byte);
  bool over() const { return over_; }
  bool in_string() const { return in_string_; }

 private:
  int depth_ = 0;
  bool begun_ = false, in_string_ = false, escaped_ = false, over_ = false;
};

// Parses {"name": "f", "arguments": {...}} byte by byte, with the members in any order. The name
// may be called "tool_name", the arguments "parameters".
class CallReader {
 public:
  enum class State { goes_on, done, wrong };

  State push(char byte);

  // The tool's name; nullopt until it is known.
  const std::optional<std::string>& name() const { return name_; }
  // The arguments so far, as JSON text. Whole once the state is `done`; "{}" if there are none.
  const std::string& arguments() const { return arguments_; }
  const std::string& text() const { return text_; }  // all that was pushed

 private:
  enum class Place { before, key_or_end, key, colon, before_value, value, comma_or_end };

  bool are_arguments() const { return key_ == "arguments" || key_ == "parameters"; }
  State push_value(char byte);
  State end_value();
  State end();

  Place place_ = Place::before;
  std::string text_, key_, value_, arguments_;
  ValueScanner scanner_;
  std::optional<std::string> name_;
  bool has_arguments_ = false;
};

// White space of JSON.
bool is_json_space(char byte);
// Returns whether `text` is a JSON object, as RFC 8259 defines it.
bool is_json_object(std::string_view text);

}  // namespace colossal::text
