// Unicode properties that tokenizers' regular expressions need and that differ between libraries.
//
// The `tokenizers` library uses Oniguruma 6.9.10 (Unicode 16); PCRE2 uses the Unicode version of
// its release (10.42: Unicode 14). A character assigned after Unicode 14 may be a letter for
// Oniguruma and unassigned for PCRE2, so the two would split a text differently.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace colossal::text {

struct CodePointRange {
  char32_t first, last;
};

struct CategoryRange {
  char32_t first;
  char32_t last;
  char category[3];  // general category: "Lu", "Nd", "Mn", ...
};

// Characters added after Unicode 14, up to and including Unicode 16, in ascending order.
std::span<const CategoryRange> added_since_unicode_14();

// Returns whether the character has the property White_Space: \s of Oniguruma and of Rust's regex
// crate. (PCRE2's \s also has U+180E.)
bool is_white_space(char32_t character);

// Returns whether \w of Rust's regex crate matches the character: letters, marks, decimal and
// letter numbers, connectors, joiners, circled letters.
bool is_word_character(char32_t character);

// Return whether the `tokenizers` library treats the character as a mark (M) or a nonspacing mark
// (Mn). Its tables are older than Unicode 14.
bool is_combining_mark(char32_t character);
bool is_nonspacing_mark(char32_t character);

// Appends the character's lower-case mapping (Unicode 17), which may be several characters.
void append_lower_case(std::string& text, char32_t character);

// Returns the number of bytes of the first grapheme cluster (user-perceived character, Unicode
// Standard Annex 29) of `text`: valid UTF-8, not empty.
size_t grapheme_length(std::string_view text);

}  // namespace colossal::text
