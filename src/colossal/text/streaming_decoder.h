// Text of tokens that arrive one by one, for a terminal or a stream.
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
  explicit StreamingDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The text that the token completes; may be empty.
  std::string push(int32_t token);
  // The end: U+FFFD if a character was left incomplete.
  std::string flush();

 private:
  const Tokenizer& tokenizer_;
  std::string held_;  // an incomplete character
};

}  // namespace colossal::text
