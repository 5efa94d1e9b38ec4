// What the tokenizers' regular expressions need to know of Unicode, where libraries differ.
//
// The `tokenizers` library matches with Oniguruma 6.9.10, which knows Unicode 16; PCRE2 knows the
// version of its release (10.42: Unicode 14). A character that was unassigned in Unicode 14 is a
// letter for one and nothing for the other, and would be cut differently.
#pragma once

#include <span>

namespace colossal::text {

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

}  // namespace colossal::text
