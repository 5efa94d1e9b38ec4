#include "colossal/text/tokenizer/byte_alphabet.h"

#include <array>

#include "colossal/text/utf8.h"

namespace colossal::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> kCharacters = [] {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}();

constexpr char32_t kNumCharacters = 0x100 + 68;  // 68 bytes do not stand for themselves

// The byte of each character; -1 if the character is not in the alphabet.
constexpr std::array<int16_t, kNumCharacters> kBytes = [] {
  std::array<int16_t, kNumCharacters> bytes{};
  bytes.fill(-1);
  for (int byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<int16_t>(byte);
  return bytes;
}();

}  // namespace

char32_t character_of_byte(uint8_t byte) {
  return kCharacters[byte];
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  for (char byte : bytes) append_utf8(text, kCharacters[static_cast<uint8_t>(byte)]);
  return text;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    const char32_t character = next_code_point(text, position);
    if (character >= kNumCharacters || kBytes[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[character]);
  }
  return bytes;
}

}  // namespace colossal::text
