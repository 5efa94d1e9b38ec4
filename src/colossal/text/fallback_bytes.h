// Tokens of bytes, "<0x0A>", that stand for a character which has no token of its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "colossal/text/tokenizer_definition.h"

namespace colossal::text {

// The byte of "<0x0A>".
std::optional<uint8_t> byte_of_fallback_token(std::string_view token);

class FallbackBytes {
 public:
  FallbackBytes() { token_of_byte_.fill(kNone); }
  explicit FallbackBytes(const Vocabulary& vocabulary);

  bool has_all() const;
  // Appends the tokens of the bytes where each has one; returns whether it did.
  bool append(std::string_view bytes, std::vector<int32_t>& tokens) const;

 private:
  static constexpr int32_t kNone = -1;
  std::array<int32_t, 256> token_of_byte_;
};

}  // namespace colossal::text
