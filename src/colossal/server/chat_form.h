// How conversations become prompts, and where answers end: as the folder of a model or of an
// adapter says.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "colossal/text/model_folder.h"

namespace colossal::server {

struct ChatForm {
  std::optional<text::ChatTemplate> chat_template{};  // nullopt: the folder has none
  // Whether the template reads content that is a list of parts. Other templates would write the
  // list itself, with its quotes and braces, into the prompt.
  bool reads_parts = false;
  std::vector<int32_t> end_tokens{};  // token ids that end an answer
};

// Throws IoError if a file cannot be read, and ConfigError if a file is invalid.
ChatForm read_chat_form(const text::ModelFolder& folder, const text::Tokenizer& tokenizer);

}  // namespace colossal::server
