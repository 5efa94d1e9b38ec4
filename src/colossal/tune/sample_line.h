// Reads the texts of a sample from a line of JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/chat_template.h"

namespace colossal::tune {

// TRL's kinds of lines. Language modelling: {"text"}, {"prompt", "completion"} or {"messages"}.
// Preference: {"prompt", "chosen", "rejected"}; without "prompt" it is what both others begin with.
// Unpaired: {"prompt", "completion", "label": true or false}. Prompt: {"prompt"}; all fields of the
// line go to the rewards. Prompts and completions are texts, or lists of messages {"role",
// "content"}, which a chat template turns into one text; "tools" and "chat_template_kwargs" go to
// the template. Instructions {"instruction", "input", "output"} are a prompt and a completion;
// {"conversations": [{"from", "value"}]} are messages.
// Completion: {"prompt", "completion"}, instructions, or messages of which the last one, by the
// assistant, is the completion.
enum class SampleKind { language_modeling, preference, unpaired, prompt, completion };

struct LineOptions {
  SampleKind kind = SampleKind::language_modeling;
  const text::ChatTemplate* chat_template = nullptr;  // null: conversations are refused
  bool assistant_only = false;                        // see SampleTexts::Whole
};

struct SampleTexts {
  std::string prompt;  // empty: there is none
  // The text of prompt and completion. A preference has two: chosen, then rejected.
  struct Whole {
    std::string text;
    // The ranges of bytes that are learned, if the template marks them; unset: all bytes.
    std::optional<std::vector<text::jinja::Span>> learned = {};
  };
  std::vector<Whole> wholes;
  bool is_chat = false;         // a chat template made the texts, their ends included
  bool desirable = true;        // of an unpaired preference
  double margin = 0;            // of a preference
  nlohmann::json columns = {};  // of a prompt: all fields of its line
};

// Returns what lines of a kind look like, for messages.
const char* expected_fields(SampleKind kind);

// Throws data::InvalidLine saying what is wrong and what would work, IoError if the line is not
// JSON.
SampleTexts read_sample_line(std::string_view line, const LineOptions& options);

// Returns the text of a prompt's line (SampleTexts::columns) with a completion of it, which is the
// assistant's next message if the prompt is a list of messages. Throws as read_sample_line() does.
SampleTexts text_with_completion(const nlohmann::json& columns, const std::string& completion,
                                 const text::ChatTemplate* chat_template);

}  // namespace colossal::tune
