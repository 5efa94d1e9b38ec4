// UTF-8 as RFC 3629 defines it: no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colossal::text {

// The first character of a byte string, or what is wrong with it.
struct Utf8Prefix {
  enum class Kind {
    character,  // a whole character of `length` bytes
    // the string ends within its first character: all its `length` bytes belong to that character
    incomplete,
    invalid,  // no character begins like this; `length` >= 1 is the maximal subpart to skip
  };
  Kind kind;
  size_t length;
};
Utf8Prefix read_utf8_prefix(std::string_view bytes);  // bytes: not empty

// Returns the length of the longest valid prefix; text.size() if all of `text` is valid.
size_t valid_utf8_length(std::string_view text);

bool is_ascii(std::string_view text);

// Returns the character at text[position] and advances `position` past it. text: valid UTF-8;
// position < text.size().
char32_t next_code_point(std::string_view text, size_t& position);
// Returns the character that ends before text[position] and moves `position` to its start. text:
// valid UTF-8; position > 0.
char32_t previous_code_point(std::string_view text, size_t& position);

void append_utf8(std::string& text, char32_t code_point);

}  // namespace colossal::text
