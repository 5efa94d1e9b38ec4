// Reads and writes UTF-8 as RFC 3629 defines it: no surrogates, no overlong forms, nothing above
// U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace colossal::text {

// The first character of a byte string, or why it begins with no whole character.
struct Utf8Prefix {
  // `length` counts bytes.
  enum class Kind {
    character,  // the string begins with a whole character of `length` bytes
    // The string ends within its first character. All `length` bytes of the string belong to it.
    incomplete,
    // No character begins with these bytes. `length` >= 1 bytes are to be skipped: the maximal
    // subpart of Unicode Standard 3.9, which decoders replace by one U+FFFD.
    invalid,
  };
  Kind kind;
  size_t length;
};
// Reads the first character of `bytes`, which must not be empty.
Utf8Prefix read_utf8_prefix(std::string_view bytes);

// Returns the length in bytes of the longest prefix of `text` that is valid UTF-8; text.size() if
// all of `text` is valid.
size_t valid_utf8_length(std::string_view text);

bool is_ascii(std::string_view text);

// Returns the character that begins at byte `position` and moves `position` past it. text: valid
// UTF-8; position < text.size().
char32_t next_code_point(std::string_view text, size_t& position);
// Returns the character that ends just before byte `position` and moves `position` to its first
// byte. text: valid UTF-8; position > 0.
char32_t previous_code_point(std::string_view text, size_t& position);

// Appends the UTF-8 of a character to `text`. code_point: a valid character; not checked.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace colossal::text
