// The forms in which models write tool calls, and how to find the form of a model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::text {

// A form is the syntax of calls in an answer; {...} are the arguments as JSON.
enum class ToolCallForm {
  none,         // the model writes no tool calls; the whole answer is content
  hermes,       // <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen 2.5 and 3
  llama_json,   // the whole answer is {"name": ..., "parameters": {...}}, several separated by ";",
                // optionally after <|python_tag|>: Llama 3
  mistral,      // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...], or [TOOL_CALLS]name{...},
                // or [TOOL_CALLS]name[ARGS]{...}
  harmony,      // <|channel|>commentary to=functions.name<|message|>{...}<|call|>: GPT-OSS
  deepseek,     // <｜tool▁calls▁begin｜>, then for each call <｜tool▁call▁begin｜>...
                // <｜tool▁call▁end｜>: DeepSeek V3, R1 and V3.1
  kimi,         // the same with other markers: Kimi K2
  glm,          // <tool_call>name, then <arg_key>, <arg_value> pairs, </tool_call>: GLM 4.5
  qwen_xml,     // <tool_call><function=name><parameter=key>value</parameter></function>
                // </tool_call>: Qwen3-Coder, Qwen 3.5, Nemotron 3
  gemma,        // <start_function_call>call:name{key:<escape>text<escape>}<end_function_call>:
                // FunctionGemma; <|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|>: Gemma 4
  tool_code,    // ```tool_code, a call in Python, ```: Gemma 3, as its prompts ask for it
  python_list,  // the whole answer is [name(key=value), ...] in Python: Llama 3.2 and 4
  marked_python,  // <|tool_call_start|>[name(key=value), ...]<|tool_call_end|>: LFM2
  command_r,      // Action: ```json [{"tool_name": ..., "parameters": {...}}]```: Command R
  command_r7b,    // <|START_ACTION|>[{"tool_name": ..., "parameters": {...}}]<|END_ACTION|>
  phi,            // <|tool_call|>[{"name": ..., "arguments": {...}}]<|/tool_call|>, or
                  // functools[...]: Phi-4-mini
  // The following two are written under Colossal's own grammars only.
  list,      // the whole answer is [{"name": ..., "parameters": {...}}, ...]
  arguments  // the whole answer is the arguments of a tool whose name the caller knows: {...}
};

// Returns the form that a model uses, by the markers in the model's chat template. Returns `none`
// if the template does not handle tools or uses an unknown form.
ToolCallForm detect_tool_call_form(std::string_view chat_template);

// Returns the name of a form in options, such as "qwen3_coder".
std::string_view name_of(ToolCallForm form);
// Returns the form of this name; nullopt if there is none. `list` and `arguments` have no names.
std::optional<ToolCallForm> tool_call_form_of(std::string_view name);
// Returns the names of all forms, separated by commas.
std::string names_of_tool_call_forms();

// Returns the texts that mark calls in this form, such as "<tool_call>"; empty if the form has no
// markers. If the tokenizer has them as special tokens, the text passed to a parser must include
// the text of these tokens.
std::vector<std::string> tool_call_markers(ToolCallForm form);

// A text that begins calls, and the text that ends them.
struct CallMarkers {
  std::string_view begin, end;
};
// Returns the pairs of markers of a form; a text may use any of them. Empty for a form without
// markers.
const std::vector<CallMarkers>& call_markers(ToolCallForm form);

}  // namespace colossal::text
