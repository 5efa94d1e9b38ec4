// Decodes tokens to text one token at a time, while a model generates them: for a terminal or a
// streamed response.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "colossal/text/tokenizer/tokenizer.h"

namespace colossal::text {

// Decodes one sequence of tokens. push() and flush() return whole UTF-8 characters only: the bytes
// of an incomplete character are held back until a later token completes it. Invalid bytes become
// U+FFFD, one for each maximal subpart (Unicode Standard 3.9, "U+FFFD Substitution of Maximal
// Subparts"). Not thread-safe.
class StreamingDecoder {
 public:
  // Where in a text the first token stands.
  enum class Begins {
    with_text,    // the tokens begin a text; some tokenizers drop a leading space
    after_prompt  // the tokens continue a prompt
  };
  // tokenizer: must outlive the decoder. skips_special: whether special tokens decode to no
  // characters.
  explicit StreamingDecoder(const Tokenizer& tokenizer, Begins begins = Begins::with_text,
                            bool skips_special = false);

  // Decodes the next token. Returns the characters that this token completes; may be "".
  std::string push(int32_t token);
  // Call at the end of the tokens. Returns U+FFFD if they end within a character, else "". Tokens
  // pushed after flush() continue the text.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  // Decode the next token as the first of a text (`first` of Decoder::append()).
  bool first_;
  std::set<int32_t> skipped_;  // tokens that decode to no characters
  std::string held_;           // bytes of an incomplete character
};

}  // namespace colossal::text
