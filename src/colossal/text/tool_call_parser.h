// Finds tool calls in a model's answer while the answer is streamed, so that a server can return
// them as the `tool_calls` of OpenAI's API.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text {

// The syntax in which a model writes tool calls.
enum class ToolCallForm {
  none,  // the model writes no tool calls; the whole answer is content
  // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, as Hermes and Qwen models write.
  hermes,
  // The whole answer is {"name": ..., "parameters": {...}}, optionally after <|python_tag|>; ";"
  // separates several calls.
  llama_json,
  // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...], or [TOOL_CALLS]name{...} or
  // [TOOL_CALLS]name[ARGS]{...}, where {...} are the arguments.
  mistral,
  // The whole answer is [{"name": ..., "parameters": {...}}, ...]. Only constrained decoding with
  // Colossal's own grammars produces this form.
  list,
  // The whole answer is the arguments of one tool, whose name the caller knows: {...}. Only
  // constrained decoding with Colossal's own grammars produces this form.
  arguments
};

// Returns the form that a model uses, found by searching for its markers in the model's chat
// template. Returns `none` if the template does not handle tools or uses an unknown form.
ToolCallForm detect_tool_call_form(std::string_view chat_template);

// Returns the texts that mark calls in this form, such as "<tool_call>"; empty if the form has no
// markers. If the tokenizer has them as special tokens, the text passed to ToolCallParser must
// include the text of these tokens.
std::vector<std::string> tool_call_markers(ToolCallForm form);

// What one push() or finish() adds to one call.
struct ToolCallDelta {
  size_t call = 0;                  // index of the call in the answer
  std::optional<std::string> name;  // name of the tool; set only where the call begins
  std::string arguments;            // the next part of the JSON text of the arguments
};
// The result of one push() or finish().
struct ParsedText {
  std::string content;  // text outside of calls
  std::vector<ToolCallDelta> calls;
  bool empty() const { return content.empty() && calls.empty(); }
};

// Parses one answer of a model. Not thread-safe.
class ToolCallParser {
 public:
  // tool: name of the called tool; used only by the form `arguments`.
  explicit ToolCallParser(ToolCallForm form, std::string tool = "");
  ~ToolCallParser();
  ToolCallParser(ToolCallParser&&) noexcept;

  // Adds the next piece of the answer. Returns the content and the parts of calls that are certain
  // now. Text that looks like the beginning of a call is held back; if it turns out not to be a
  // call, a later result has it as content. White space at the end of content is held back, too,
  // and dropped if a call follows.
  ParsedText push(std::string_view text);
  // Call once at the end of the answer. Returns the text that push() held back. A call of which
  // parts were returned may be incomplete: then num_whole_calls() is below num_calls().
  ParsedText finish();

  size_t num_calls() const;        // calls that have begun, complete or not
  size_t num_whole_calls() const;  // complete calls

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace colossal::text
