// The sets of characters that tokenizers' regular expressions name, as members of a PCRE2 class
// (what stands between [ and ]) where nothing else is said.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

// \x{...}
std::string escaped(char32_t character);

// \s, and \S for use within a class.
std::string white_space_members();
std::string non_white_space_members();

// \p{category}, a general category ("L", "Nd"). Nothing for another name, nor for the three that
// have lost characters since Unicode 14: "C" and "Cn" to all others, and "Mn" U+1171E to "Mc".
std::optional<std::string> category_members(std::string_view category);

// \w as Oniguruma has it: letters, marks, decimal and letter numbers, connectors, circled letters;
// and, outside of a class only, the superscripts and fractions of Latin-1.
std::string word_members(bool in_class);

// \w of Rust's regular expressions, which has joiners besides.
std::string rust_word_members();

// An expression, not members: a character of punctuation as `tokenizers` sees it, which knows no
// later one than Unicode 8, and counts the symbols of ASCII as punctuation.
std::string punctuation_expression();

}  // namespace colossal::text
