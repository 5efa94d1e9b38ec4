// The forms in which models write their reasoning, and how to find the form of a model.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/answer/tool_call_form.h"

namespace colossal::text {

enum class ReasoningForm {
  none,     // the model writes no reasoning
  think,    // <think>...</think>: Qwen3, DeepSeek R1, GLM 4.5 and most others
  mistral,  // [THINK]...[/THINK]: Magistral
  cohere,   // <|START_THINKING|>...<|END_THINKING|>: Command R7B, Command A
  gemma,    // <|channel>thought ... <channel|>: Gemma 4
  seed,     // <seed:think>...</seed:think>: Seed-OSS
  harmony   // <|channel|>analysis<|message|>...<|end|>: GPT-OSS
};

// Returns the form that a model uses, by the markers in the model's chat template; `none` if there
// are none.
ReasoningForm detect_reasoning_form(std::string_view chat_template);

// Returns the name of a form in options, such as "think".
std::string_view name_of(ReasoningForm form);
// Returns the form of this name; nullopt if there is none. Besides name_of()'s names, the names of
// vLLM's parsers "qwen3", "deepseek_r1", "glm45" and "openai_gptoss" are accepted.
std::optional<ReasoningForm> reasoning_form_of(std::string_view name);
// Returns the names of all forms, separated by commas.
std::string names_of_reasoning_forms();

// Returns the markers around the reasoning; empty ones for `none` and `harmony`.
CallMarkers reasoning_markers(ReasoningForm form);
// Returns the texts that mark reasoning. See tool_call_markers().
std::vector<std::string> texts_of_reasoning_markers(ReasoningForm form);

// Where an answer begins, because of what its prompt ends with.
enum class AnswerBegin {
  anywhere,        // the answer may begin with reasoning
  in_reasoning,    // the prompt has begun the reasoning: "<think>\n"
  after_reasoning  // the prompt has ended it: "<think>\n\n</think>\n\n"
};
// Returns where the answer to a rendered prompt begins. text: the prompt, or what the client has
// written of the answer itself.
AnswerBegin begin_of_answer(ReasoningForm form, std::string_view text);

}  // namespace colossal::text
