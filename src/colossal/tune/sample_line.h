// Parses a line of a jsonl file of data.train, in TRL's formats, into the texts of a sample. Used
// by read_samples() (samples.h), which tokenizes the texts.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/chat_template.h"

namespace colossal::tune {

// Kinds of lines, with the fields that a line must have, as in TRL. A prompt or a completion is a
// text or a list of messages {"role", "content"}. A chat template renders messages to one text; the
// line's fields "tools" and "chat_template_kwargs" are passed to it. The kinds language_modeling
// and completion also accept {"instruction", "input", "output"} in place of {"prompt",
// "completion"}, and {"conversations": [{"from", "value"}]} in place of {"messages"}.
enum class SampleKind {
  // {"text"}, {"prompt", "completion"} or {"messages"}: for supervised fine-tuning.
  language_modeling,
  // {"prompt", "chosen", "rejected"}, and optionally "margin". If "prompt" is missing, the prompt
  // is the common prefix of "chosen" and "rejected".
  preference,
  // {"prompt", "completion", "label"}; label true: the completion is desirable.
  unpaired,
  // {"prompt"}: completions are sampled. All fields of the line are passed to rewards.
  prompt,
  // {"prompt", "completion"}, or {"messages"} whose last message, by the assistant, is the
  // completion.
  completion
};

// Options of read_sample_line().
struct LineOptions {
  SampleKind kind = SampleKind::language_modeling;
  const text::ChatTemplate* chat_template = nullptr;  // null: lines with messages are invalid
  // Sets SampleTexts::Whole::learned; lines without messages are then invalid.
  bool assistant_only = false;
};

// The texts of a sample.
struct SampleTexts {
  std::string prompt;  // empty: no prompt
  // A text to tokenize: the prompt with its completion; for SampleKind::prompt, the prompt alone.
  struct Whole {
    std::string text;
    // The byte ranges of `text` to train on, which the chat template marks with {% generation %}.
    // nullopt: the whole text (if not assistant_only).
    std::optional<std::vector<text::jinja::Span>> learned = {};
  };
  // One text; for a preference two: with the chosen, then with the rejected completion.
  std::vector<Whole> wholes;
  // A chat template rendered the texts, which then contain their special tokens.
  bool is_chat = false;
  bool desirable = true;        // for unpaired preferences: "label"
  double margin = 0;            // for preferences: by how much the chosen completion is better
  nlohmann::json columns = {};  // for prompts: all fields of the line
};

// Returns a description of the fields that a kind of lines must have, for error messages.
const char* expected_fields(SampleKind kind);

// Parses a line. Throws data::InvalidLine, whose message names the problem and a remedy, if the
// line is not a sample of options.kind; IoError if the line is not JSON.
SampleTexts read_sample_line(std::string_view line, const LineOptions& options);

// Returns the text of a prompt followed by a completion, as the only element of `wholes`; `prompt`
// of the result is empty. columns: all fields of the prompt's line, of SampleKind::prompt. If its
// "prompt" is a list of messages, the completion becomes the assistant's next message.
// chat_template: renders messages; null: messages are invalid. Throws data::InvalidLine as
// read_sample_line() does.
SampleTexts text_with_completion(const nlohmann::json& columns, const std::string& completion,
                                 const text::ChatTemplate* chat_template);

}  // namespace colossal::tune
