// Parses a sample from a line of JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/chat_template.h"

namespace colossal::tune {

// Kinds of lines and their fields, as in TRL. language_modeling: {"text"}, {"prompt", "completion"}
// or {"messages"}. preference: {"prompt", "chosen", "rejected"}, optionally {"margin"}; without
// "prompt", it is the common prefix of "chosen" and "rejected". unpaired: {"prompt", "completion",
// "label": true or false}; true: desirable. prompt: {"prompt"}; all fields of the line are passed
// to rewards. completion: {"prompt", "completion"}, instructions, or messages of which the last, by
// the assistant, is the completion.
//
// Prompts and completions are texts, or lists of messages {"role", "content"}, which a chat
// template renders to one text; the line's "tools" and "chat_template_kwargs" are passed to the
// template. Two other forms are accepted: {"instruction", "input", "output"} (instructions) for a
// prompt and a completion, and {"conversations": [{"from", "value"}]} for messages.
enum class SampleKind { language_modeling, preference, unpaired, prompt, completion };

struct LineOptions {
  SampleKind kind = SampleKind::language_modeling;
  const text::ChatTemplate* chat_template = nullptr;  // null: lines with messages are invalid
  bool assistant_only = false;  // sets SampleTexts::Whole::learned; other lines are invalid
};

struct SampleTexts {
  std::string prompt;  // empty: no prompt
  // The text of prompt and completion together. A preference has two of them: with the chosen, then
  // with the rejected completion. A line of kind `prompt` has its prompt alone.
  struct Whole {
    std::string text;
    // With assistant_only: the byte ranges to train on, which the chat template marks. nullopt: all
    // bytes.
    std::optional<std::vector<text::jinja::Span>> learned = {};
  };
  std::vector<Whole> wholes;
  bool is_chat = false;         // a chat template rendered the texts, special tokens included
  bool desirable = true;        // for unpaired preferences
  double margin = 0;            // for preferences: by how much the chosen completion is better
  nlohmann::json columns = {};  // for prompts: all fields of the line
};

// Returns a description of the fields that a kind of lines must have, for error messages.
const char* expected_fields(SampleKind kind);

// Throws data::InvalidLine, whose message names the problem and a remedy, for a line that is no
// sample of options.kind; IoError if the line is not JSON.
SampleTexts read_sample_line(std::string_view line, const LineOptions& options);

// Returns the text of a prompt followed by a completion, as the only one of `wholes`. If the prompt
// is a list of messages, the completion becomes the assistant's next message. columns: all fields
// of the prompt's line. Throws as read_sample_line().
SampleTexts text_with_completion(const nlohmann::json& columns, const std::string& completion,
                                 const text::ChatTemplate* chat_template);

}  // namespace colossal::tune
