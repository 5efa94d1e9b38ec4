// Writes texts as JSON.
#pragma once

#include <string>
#include <string_view>

namespace colossal::data {

// Returns `text` as a JSON string, in quotes. Bytes that are not UTF-8 stay as they are, so that
// who parses the string refuses them.
inline std::string json_text(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string json;
  json.reserve(text.size() + 2);
  json += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (c == '\n') {
      json += "\\n";
    } else if (byte < 0x20) {
      json += "\\u00";
      json += kHex[byte >> 4];
      json += kHex[byte & 15];
    } else {
      json += c;
    }
  }
  json += '"';
  return json;
}

}  // namespace colossal::data
