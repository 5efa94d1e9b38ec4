// Facts of Unicode that the regular expressions of tokenizers need, and on which libraries differ.
//
// The `tokenizers` library matches with Oniguruma 6.9.10, which knows Unicode 16; PCRE2 knows the
// version of its release (10.42: Unicode 14). A character that was unassigned in Unicode 14 is a
// letter for one and nothing for the other, and would be cut differently.
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

// Characters added from Unicode 14 (exclusive) to Unicode 16 (inclusive), in ascending order.
std::span<const CategoryRange> added_since_unicode_14();

// The property White_Space: \s of Oniguruma and of Rust's regex. (PCRE2's \s has U+180E as well.)
bool is_white_space(char32_t character);

// Rust's \w: letters, marks, decimal and letter numbers, connectors, joiners, circled letters.
bool is_word_character(char32_t character);

// Marks of every kind, and those of them without a width of their own (such as accents above a
// letter), as `tokenizers` takes them away: it knows neither those of the last years.
bool is_combining_mark(char32_t character);
bool is_nonspacing_mark(char32_t character);

// Appends the character in lower case, which may be several characters (Unicode 17).
void append_lower_case(std::string& text, char32_t character);

// The number of bytes of the first grapheme of `text` (valid UTF-8, not empty): what is seen as one
// character (Unicode Standard Annex 29).
size_t grapheme_length(std::string_view text);

}  // namespace colossal::text
