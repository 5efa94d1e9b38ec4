// Decodes tokens that arrive one by one, for a terminal or a stream.
#pragma once

#include <cstdint>
#include <string>

#include "colossal/text/tokenizer.h"

namespace colossal::text {

// Gives out whole UTF-8 characters only; bytes that can begin none become U+FFFD, one for each
// maximal subpart as Unicode recommends (3.9, "U+FFFD Substitution"). The tokenizer must outlive
// it.
class StreamingDecoder {
 public:
  enum class Begins { with_text, after_prompt };
  explicit StreamingDecoder(const Tokenizer& tokenizer, Begins begins = Begins::with_text)
      : tokenizer_(tokenizer), first_(begins == Begins::with_text) {}

  // The text that the token completes; may be empty.
  std::string push(int32_t token);
  // Ends the text: returns U+FFFD if a character was left incomplete. What is pushed later
  // continues the text.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool first_;        // the next token is a text's first
  std::string held_;  // an incomplete character
};

}  // namespace colossal::text
