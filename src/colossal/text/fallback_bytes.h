// Byte fallback: a character that has no token is encoded as the tokens of its UTF-8 bytes, such as
// "<0x0A>".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// Returns 0x0A for "<0x0A>"; nullopt if `token` does not have this form.
std::optional<uint8_t> byte_of_fallback_token(std::string_view token);

// The byte tokens of a vocabulary; by default none.
class FallbackBytes {
 public:
  FallbackBytes() { token_of_byte_.fill(kNone); }
  explicit FallbackBytes(const Vocabulary& vocabulary);

  bool has_all() const;  // true if each of the 256 bytes has a token
  // If all the bytes have tokens, appends these and returns true; otherwise appends nothing.
  bool append(std::string_view bytes, std::vector<int32_t>& tokens) const;

 private:
  static constexpr int32_t kNone = -1;
  std::array<int32_t, 256> token_of_byte_;
};

}  // namespace colossal::text
