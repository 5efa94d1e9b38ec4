// Byte fallback of BPE and Unigram tokenizers: a character that has no token is encoded as one
// token for each of its UTF-8 bytes. These tokens are written like "<0x0A>".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer/tokenizer_definition.h"

namespace colossal::text {

// Returns the byte that a fallback token stands for, such as 0x0A for "<0x0A>"; nullopt if `token`
// does not have this form. Accepts hexadecimal digits in lower case, too.
std::optional<uint8_t> byte_of_fallback_token(std::string_view token);

// The fallback tokens of a vocabulary. Immutable and thread-safe.
class FallbackBytes {
 public:
  // No fallback tokens.
  FallbackBytes() { token_of_byte_.fill(kNone); }
  // Finds the tokens "<0x00>" to "<0xFF>" (upper case only) in the vocabulary.
  explicit FallbackBytes(const Vocabulary& vocabulary);

  bool has_all() const;  // whether each of the 256 bytes has a fallback token
  // Appends the fallback tokens of `bytes` to `tokens` and returns true. If a byte has no fallback
  // token, appends nothing and returns false.
  bool append(std::string_view bytes, std::vector<int32_t>& tokens) const;

 private:
  static constexpr int32_t kNone = -1;
  std::array<int32_t, 256> token_of_byte_;  // token id by byte, or kNone
};

}  // namespace colossal::text
