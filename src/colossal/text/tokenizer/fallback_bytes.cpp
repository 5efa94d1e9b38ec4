#include "colossal/text/tokenizer/fallback_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace colossal::text {

std::optional<uint8_t> byte_of_fallback_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return byte;
}

FallbackBytes::FallbackBytes(const Vocabulary& vocabulary) : FallbackBytes() {
  for (const auto& [token, id] : vocabulary) {
    const auto byte = byte_of_fallback_token(token);
    // Lower-case names such as "<0x0a>" are decoded as a byte, but never used for encoding.
    if (byte && token == fmt::format("<0x{:02X}>", *byte)) token_of_byte_[*byte] = id;
  }
}

bool FallbackBytes::has_all() const {
  return std::ranges::find(token_of_byte_, kNone) == token_of_byte_.end();
}

bool FallbackBytes::append(std::string_view bytes, std::vector<int32_t>& tokens) const {
  const auto token_of = [&](char byte) { return token_of_byte_[static_cast<uint8_t>(byte)]; };
  for (char byte : bytes) {
    if (token_of(byte) == kNone) return false;
  }
  for (char byte : bytes) tokens.push_back(token_of(byte));
  return true;
}

}  // namespace colossal::text
