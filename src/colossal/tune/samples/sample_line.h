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
// and completion also accept {"instruction", "output"}, optionally with "input", in place of
// {"prompt", "completion"}, and {"conversations": [{"from", "value"}]} in place of {"messages"}.
enum class SampleKind {
  // {"text"}, {"prompt", "completion"} or {"messages"}: for supervised fine-tuning.
  language_modeling,
  // {"prompt", "chosen", "rejected"}, and optionally "margin". If "prompt" is missing, the prompt
  // is the common beginning of "chosen" and "rejected": of lists, the equal messages; of texts, the
  // equal characters, without a space at their end.
  preference,
  // {"prompt", "completion", "label"}; label true: the completion is desirable.
  unpaired,
  // {"prompt"}: completions are sampled. All fields of the line are passed to rewards.
  prompt,
  // {"prompt", "completion"}, or {"messages"} whose last message, by the assistant, is the
  // completion and whose others are the prompt: for distillation.
  completion,
  // A text, optionally a second one, and a label, in the fields that LineOptions names: for models
  // that classify texts (labels.h). A text may also be a list of messages.
  labeled
};

// Options of read_sample_line().
struct LineOptions {
  SampleKind kind = SampleKind::language_modeling;
  const text::ChatTemplate* chat_template = nullptr;  // null: lines with messages are invalid
  // Only for SampleKind::language_modeling. True: only the assistant's messages are trained on.
  // Sets SampleTexts::Whole::learned. Lines without messages are then invalid, as are lines in
  // which the chat template marks nothing to train on.
  bool assistant_only = false;
  // For SampleKind::labeled: the fields of the text, of the second text and of the label.
  std::string text_field = "text", pair_field = "text_pair", label_field = "label";
};

// The texts of a sample.
struct SampleTexts {
  // The text of the prompt, without its completion. A prompt of messages ends with the template's
  // generation prompt, which opens the assistant's answer. Empty for lines without a prompt: with
  // SampleKind::language_modeling, {"text"}, {"messages"} and {"conversations"}.
  std::string prompt;
  std::vector<size_t> prompt_breaks = {};  // of a chat: jinja::Rendered::breaks
  // A text to tokenize: the prompt with its completion; for SampleKind::prompt, the prompt alone;
  // for lines without a prompt, the whole text or conversation.
  struct Whole {
    std::string text;
    // With LineOptions::assistant_only: the byte ranges of `text` to train on, which the chat
    // template marks with {% generation %}. Otherwise nullopt.
    std::optional<std::vector<text::jinja::Span>> learned = {};
    std::vector<size_t> breaks = {};  // of a chat: jinja::Rendered::breaks
  };
  // One text; for a preference two: with the chosen, then with the rejected completion.
  std::vector<Whole> wholes;
  // True: a chat template rendered the texts, which therefore contain all special tokens as text.
  bool is_chat = false;
  bool desirable = true;  // for SampleKind::unpaired: "label"
  // For SampleKind::preference: "margin", by how much the chosen completion is better; 0 if
  // missing.
  double margin = 0;
  nlohmann::json columns = {};  // for SampleKind::prompt: all fields of the line
  // For SampleKind::labeled: the second text, if the line has one, and the label; null: no label.
  std::optional<std::string> second = {};
  nlohmann::json label = {};
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
