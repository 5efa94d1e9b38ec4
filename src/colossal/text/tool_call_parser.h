// Finds calls of tools in a model's answer while it arrives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text {

// How models write calls.
enum class ToolCallForm {
  none,
  hermes,      // <tool_call>{"name": ..., "arguments": {...}}</tool_call>; Hermes, Qwen
  llama_json,  // the whole answer is {"name": ..., "parameters": {...}}, several parted by ";"
  mistral,     // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...] or [TOOL_CALLS]name{...}
  // What our grammars make a model write: [{"name": ..., "parameters": {...}}, ...].
  list,
  arguments  // likewise: the arguments alone, of a known tool
};

// Returns the form that a chat template asks for; `none` if it has no tools or writes calls in
// another form.
ToolCallForm find_tool_call_form(std::string_view chat_template);

// Returns the texts of tokens that belong to the form, though they may be special tokens.
std::vector<std::string> tool_call_markers(ToolCallForm form);

// What was found in a piece of text.
struct ToolCallDelta {
  size_t call = 0;
  std::optional<std::string> name;  // with which the call begins
  std::string arguments;            // JSON, as far as it has come
};
struct ParsedText {
  std::string content;  // that is no call
  std::vector<ToolCallDelta> calls;
  bool empty() const { return content.empty() && calls.empty(); }
};

class ToolCallParser {
 public:
  // tool: the name of the one that is called in the form `arguments`.
  explicit ToolCallParser(ToolCallForm form, std::string tool = "");
  ~ToolCallParser();
  ToolCallParser(ToolCallParser&&) noexcept;

  // Takes a piece and returns what is certain now. What looks like a call but is none becomes
  // content.
  ParsedText push(std::string_view text);
  // Ends the text.
  ParsedText finish();

  size_t num_calls() const;        // that have begun
  size_t num_whole_calls() const;  // that are complete

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace colossal::text
