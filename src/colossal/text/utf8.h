// UTF-8 as RFC 3629 defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colossal::text {

// The character, or the damage, at the start of some bytes.
struct Utf8Prefix {
  enum class Kind {
    character,   // a whole character of `length` bytes
    incomplete,  // all `length` bytes are a proper beginning of a character
    invalid,     // no character begins with these `length` bytes (a maximal subpart, at least one)
  };
  Kind kind;
  size_t length;
};
Utf8Prefix read_utf8_prefix(std::string_view bytes);  // bytes: not empty

// Length of the longest valid beginning: text.size() where all of it is valid.
size_t valid_utf8_length(std::string_view text);

bool is_ascii(std::string_view text);

// The character at text[position], where text is valid UTF-8; moves position past it.
char32_t next_code_point(std::string_view text, size_t& position);
// The character that ends before text[position]; moves position to its start.
char32_t previous_code_point(std::string_view text, size_t& position);

void append_utf8(std::string& text, char32_t code_point);

}  // namespace colossal::text
