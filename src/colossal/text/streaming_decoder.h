// Decodes tokens one at a time, for a terminal or a streamed response.
#pragma once

#include <cstdint>
#include <string>

#include "colossal/text/tokenizer.h"

namespace colossal::text {

// Its results have only whole UTF-8 characters. Invalid bytes become U+FFFD, one for each maximal
// subpart (Unicode Standard 3.9, "U+FFFD Substitution of Maximal Subparts"). The tokenizer must
// outlive the decoder. Not thread-safe.
class StreamingDecoder {
 public:
  enum class Begins {
    with_text,    // the tokens begin a text; the first one may lose its leading space
    after_prompt  // the tokens continue a prompt
  };
  explicit StreamingDecoder(const Tokenizer& tokenizer, Begins begins = Begins::with_text)
      : tokenizer_(tokenizer), first_(begins == Begins::with_text) {}

  // Returns the characters that `token` completes; may be empty.
  std::string push(int32_t token);
  // Returns U+FFFD if the tokens so far end within a character, else "". Tokens that are pushed
  // later continue the text.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  bool first_;        // the next token is the first with bytes of a text (see Decoder::append())
  std::string held_;  // bytes of an incomplete character
};

}  // namespace colossal::text
