// Parses a sample from a line of JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/chat_template.h"

namespace colossal::tune {

// Kinds of lines, as in TRL. Language modeling: {"text"}, {"prompt", "completion"} or {"messages"}.
// Preference: {"prompt", "chosen", "rejected"}; if missing, "prompt" is the common prefix of both.
// Unpaired: {"prompt", "completion", "label": true or false}. Prompt: {"prompt"}; all fields of the
// line are passed to rewards. Completion: {"prompt", "completion"}, instructions, or messages whose
// last message, by the assistant, is the completion.
//
// Prompts and completions are texts, or lists of messages {"role", "content"}, which a chat
// template renders to one text; "tools" and "chat_template_kwargs" are passed to the template.
// Instructions {"instruction", "input", "output"} are equivalent to a prompt and a completion,
// {"conversations": [{"from", "value"}]} to messages.
enum class SampleKind { language_modeling, preference, unpaired, prompt, completion };

struct LineOptions {
  SampleKind kind = SampleKind::language_modeling;
  const text::ChatTemplate* chat_template = nullptr;  // null: throws for lines with messages
  bool assistant_only = false;                        // see SampleTexts::Whole
};

struct SampleTexts {
  std::string prompt;  // empty: no prompt
  // The text of prompt and completion together. A preference has two: chosen, then rejected.
  struct Whole {
    std::string text;
    // Byte ranges to train on, if the chat template marks them; nullopt: all bytes.
    std::optional<std::vector<text::jinja::Span>> learned = {};
  };
  std::vector<Whole> wholes;
  bool is_chat = false;         // a chat template rendered the texts, end tokens included
  bool desirable = true;        // for unpaired preferences
  double margin = 0;            // for preferences
  nlohmann::json columns = {};  // for prompts: all fields of the line
};

// Returns the expected fields of a kind of lines, for error messages.
const char* expected_fields(SampleKind kind);

// Throws data::InvalidLine (the message names the problem and a remedy) for a line without the
// expected fields; IoError if the line is not JSON.
SampleTexts read_sample_line(std::string_view line, const LineOptions& options);

// Returns the text of a prompt (SampleTexts::columns) followed by a completion, which is the next
// message of the assistant if the prompt is a list of messages. Throws as read_sample_line().
SampleTexts text_with_completion(const nlohmann::json& columns, const std::string& completion,
                                 const text::ChatTemplate* chat_template);

}  // namespace colossal::tune
