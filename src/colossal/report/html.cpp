#include "colossal/report/html.h"

#include <cstdint>

namespace colossal::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Returns the number of bytes of the character at the start of `text` (not empty); 0 if it is not
// valid UTF-8 (Unicode standard, table 3-7).
size_t character_length(std::string_view text) {
  const auto byte = [&](size_t i) -> uint8_t { return i < text.size() ? text[i] : 0; };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && second < 0xA0;
    const bool surrogate = first == 0xED && second > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && second < 0x90;
    const bool too_large = first == 0xF4 && second > 0x8F;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

std::string_view escaped_ascii(const char& character) {
  switch (character) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    case '\t':
    case '\n':
    case '\r':
      return {&character, 1};
    default:
      return character < 0x20 || character == 0x7F ? kReplacement : std::string_view(&character, 1);
  }
}

}  // namespace

std::string replace_invalid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = character_length(text);
    valid += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return valid;
}

std::string escape_html(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char& character : replace_invalid_utf8(text)) {
    const bool ascii = static_cast<uint8_t>(character) < 0x80;
    escaped += ascii ? escaped_ascii(character) : std::string_view(&character, 1);
  }
  return escaped;
}

std::string escape_json_for_script(std::string_view json) {
  std::string escaped;
  escaped.reserve(json.size());
  for (const char& character : json) {
    escaped += character == '<' ? std::string_view("\\u003c") : std::string_view(&character, 1);
  }
  return escaped;
}

}  // namespace colossal::report
