// Unicode properties that tokenizers need and on which libraries differ.
//
// The `tokenizers` library uses Oniguruma 6.9.10, which knows Unicode 16. PCRE2 knows the Unicode
// version of its release (10.42: Unicode 14). A character that was assigned after Unicode 14 may be
// a letter for Oniguruma and unassigned for PCRE2. The two would then split a text differently.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace colossal::text {

// Code points from first to last, both included.
struct CodePointRange {
  char32_t first, last;
};

// Code points from first to last, both included, that share a general category.
struct CategoryRange {
  char32_t first;
  char32_t last;
  char category[3];  // "Lu", "Nd", "Mn", ...; zero-terminated
};

// Returns the characters that were added, or whose category changed, after Unicode 14 and up to
// Unicode 16, in ascending order, with their categories in Unicode 16.
std::span<const CategoryRange> added_since_unicode_14();

// Returns true if the character has the property White_Space. \s of Oniguruma and of Rust's regex
// crate matches these characters. (PCRE2's \s also matches U+180E.)
bool is_white_space(char32_t character);

// Returns true if \w of Rust's regex crate matches the character: letters, marks, decimal digits,
// letter numbers, connector punctuation, joiners, circled letters.
bool is_word_character(char32_t character);

// Return true if the `tokenizers` library treats the character as a mark (category M:
// is_combining_mark()) or as a nonspacing mark (category Mn: is_nonspacing_mark()). For this, the
// library uses tables of its own, not Oniguruma's. They are older than Unicode 14.
bool is_combining_mark(char32_t character);
bool is_nonspacing_mark(char32_t character);

// Appends the lower case of `character` (Unicode 17) to `text`. The lower case may be several
// characters.
void append_lower_case(std::string& text, char32_t character);

// Returns the length in bytes of the first grapheme cluster (user-perceived character, Unicode
// Standard Annex 29) of `text`. text: valid UTF-8, not empty.
size_t grapheme_length(std::string_view text);

}  // namespace colossal::text
