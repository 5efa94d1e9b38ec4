// Finds tool calls in a model's answer while the answer is streamed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text {

// How a model writes tool calls.
enum class ToolCallForm {
  none,
  hermes,  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>; Hermes, Qwen
  // The whole answer is {"name": ..., "parameters": {...}}; ";" separates several calls.
  llama_json,
  mistral,  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...] or [TOOL_CALLS]name{...}
  // Only constrained decoding with Colossal's grammars produces the following forms.
  list,      // [{"name": ..., "parameters": {...}}, ...]
  arguments  // the arguments of one known tool
};

// Detects the form from a chat template; `none` if the template has no tools or uses an unknown
// form.
ToolCallForm find_tool_call_form(std::string_view chat_template);

// Returns the texts that mark calls in this form, such as "<tool_call>". If a tokenizer has them as
// special tokens, the decoded answer must include these.
std::vector<std::string> tool_call_markers(ToolCallForm form);

// What push() or finish() adds to one call.
struct ToolCallDelta {
  size_t call = 0;                  // index of the call in the answer
  std::optional<std::string> name;  // set when the call begins
  std::string arguments;            // the next part of the arguments' JSON
};
struct ParsedText {
  std::string content;  // text outside of calls
  std::vector<ToolCallDelta> calls;
  bool empty() const { return content.empty() && calls.empty(); }
};

// Parses one answer. Not thread-safe.
class ToolCallParser {
 public:
  // tool: name of the called tool; used by the form `arguments` only.
  explicit ToolCallParser(ToolCallForm form, std::string tool = "");
  ~ToolCallParser();
  ToolCallParser(ToolCallParser&&) noexcept;

  // Adds the next piece of the answer and returns what has become certain by it. Text that begins
  // like a call but turns out not to be one is returned as content.
  ParsedText push(std::string_view text);
  // Call at the end of the answer; returns the text that push() held back.
  ParsedText finish();

  size_t num_calls() const;        // begun, complete or not
  size_t num_whole_calls() const;  // complete

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace colossal::text
