// Reads tool calls that Colossal's own grammars force. Used by ToolCallParser.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "colossal/text/answer/json_call_reader.h"
#include "colossal/text/answer/tool_call_parser.h"

namespace colossal::text {

// The forms `list` and `arguments`: the answer is calls as a whole, and a grammar keeps it valid.
// So parts of the arguments are returned as they come.
class ForcedCalls : public ToolCallParser::Implementation {
 public:
  // tool: of the form `arguments`; nullopt: the form `list`.
  explicit ForcedCalls(std::optional<std::string> tool) : tool_(std::move(tool)) {}
  bool read(std::string_view& rest, ParsedText& out) override;
  void finish(std::string_view rest, ParsedText& out) override;

 private:
  enum class Place { before, call, arguments, after, only_content };

  void begin(const std::string& name, ParsedText& out);
  // arguments: all so far, of which `given_` bytes were returned.
  void give(std::string_view arguments, ParsedText& out);
  void end();
  void give_up(ParsedText& out);
  void push(char byte, ParsedText& out);

  std::optional<std::string> tool_;
  Place place_ = Place::before;
  std::string before_;  // text before the first call
  std::string arguments_;
  CallReader call_;
  ValueScanner value_;
  bool named_ = false;  // the call's name was returned
  size_t given_ = 0;
};

}  // namespace colossal::text
