#include "colossal/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace colossal::text {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// What follows a lead byte: the character's length, and the range of its second byte. This is
// narrower than 80..BF after some lead bytes, to exclude overlong forms, surrogates and code points
// above U+10FFFF.
struct LeadByte {
  size_t length;  // 0: no character begins with this byte
  unsigned char second_low = 0x80, second_high = 0xBF;
};

LeadByte classify(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {0};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

size_t ascii_length(std::string_view text) {
  size_t length = 0;
  uint64_t word;
  while (length + sizeof(word) <= text.size()) {
    std::memcpy(&word, text.data() + length, sizeof(word));
    if (word & 0x8080808080808080u) break;
    length += sizeof(word);
  }
  while (length < text.size() && static_cast<unsigned char>(text[length]) < 0x80) ++length;
  return length;
}

}  // namespace

Utf8Prefix read_utf8_prefix(std::string_view bytes) {
  using Kind = Utf8Prefix::Kind;
  const LeadByte lead = classify(static_cast<unsigned char>(bytes[0]));
  if (lead.length == 0) return {Kind::invalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Kind::incomplete, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const bool fits =
        i == 1 ? byte >= lead.second_low && byte <= lead.second_high : is_continuation(bytes[i]);
    if (!fits) return {Kind::invalid, i};
  }
  return {Kind::character, lead.length};
}

size_t valid_utf8_length(std::string_view text) {
  size_t position = 0;
  while (true) {
    position += ascii_length(text.substr(position));
    if (position == text.size()) return position;
    const Utf8Prefix prefix = read_utf8_prefix(text.substr(position));
    if (prefix.kind != Utf8Prefix::Kind::character) return position;
    position += prefix.length;
  }
}

bool is_ascii(std::string_view text) {
  return ascii_length(text) == text.size();
}

char32_t next_code_point(std::string_view text, size_t& position) {
  const auto lead = static_cast<unsigned char>(text[position++]);
  if (lead < 0x80) return lead;
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code_point = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    code_point = code_point << 6 | (static_cast<unsigned char>(text[position++]) & 0x3F);
  }
  return code_point;
}

char32_t previous_code_point(std::string_view text, size_t& position) {
  do {
    --position;
  } while (is_continuation(text[position]));
  size_t after = position;
  return next_code_point(text, after);
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto tail = [&](int shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += {static_cast<char>(0xC0 | code_point >> 6), tail(0)};
  } else if (code_point < 0x10000) {
    text += {static_cast<char>(0xE0 | code_point >> 12), tail(6), tail(0)};
  } else {
    text += {static_cast<char>(0xF0 | code_point >> 18), tail(12), tail(6), tail(0)};
  }
}

}  // namespace colossal::text
