// A line of JSON as the texts of a sample.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/chat_template.h"

namespace colossal::tune {

// TRL's kinds of lines. Language modelling: {"text"}, {"prompt", "completion"} or {"messages"};
// preference: {"prompt", "chosen", "rejected"}, or without a prompt, which is what both begin with;
// unpaired: {"prompt", "completion", "label": true or false}; prompts: {"prompt"}, and what else
// the line has goes to the rewards. Prompts and completions are texts, or lists of messages
// {"role", "content"}, which a chat template makes one text of; "tools" and "chat_template_kwargs"
// go to the template. Instructions {"instruction", "input", "output"} are a prompt and a
// completion; {"conversations": [{"from", "value"}]} are messages.
enum class SampleKind { language_modeling, preference, unpaired, prompt };

struct LineOptions {
  SampleKind kind = SampleKind::language_modeling;
  const text::ChatTemplate* chat_template = nullptr;  // null: conversations are refused
  bool assistant_only = false;                        // see SampleTexts::Whole
};

struct SampleTexts {
  std::string prompt;  // empty: there is none
  // Prompt and completion; of a preference the chosen one, then the rejected one.
  struct Whole {
    std::string text;
    // What of it is learned, by bytes, where the template marks it; nothing: all.
    std::optional<std::vector<text::jinja::Span>> learned = {};
  };
  std::vector<Whole> wholes;
  bool is_chat = false;         // a template made the texts, and ended them
  bool desirable = true;        // of an unpaired preference
  double margin = 0;            // of a preference
  nlohmann::json columns = {};  // of a prompt: the line, whole
};

// What lines of a kind look like, for messages.
const char* expected_fields(SampleKind kind);

// Throws data::InvalidLine saying what is wrong and what would work, IoError for what is no JSON.
SampleTexts read_sample_line(std::string_view line, const LineOptions& options);

}  // namespace colossal::tune
