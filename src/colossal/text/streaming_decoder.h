// Decodes tokens one at a time, for a terminal or a streamed response.
#pragma once

#include <cstdint>
#include <string>

#include "colossal/text/tokenizer.h"

namespace colossal::text {

// Returns only whole UTF-8 characters. Invalid bytes become U+FFFD, one for each maximal subpart
// (Unicode Standard 3.9, "U+FFFD Substitution of Maximal Subparts"). The tokenizer must outlive the
// decoder.
class StreamingDecoder {
 public:
  // after_prompt: the tokens continue a prompt, so the first one keeps its leading space.
  enum class Begins { with_text, after_prompt };
  explicit StreamingDecoder(const Tokenizer& tokenizer, Begins begins = Begins::with_text)
      : tokenizer_(tokenizer), first_(begins == Begins::with_text) {}

  // Returns the text that `token` completes; may be empty.
  std::string push(int32_t token);
  // Returns U+FFFD if the text ends within a character, else "". Later tokens continue the same
  // text.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool first_;        // no token has added text yet, and the text begins with these tokens
  std::string held_;  // bytes of an incomplete character
};

}  // namespace colossal::text
