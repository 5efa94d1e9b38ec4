// The character sets that tokenizers' regular expressions use. Unless noted otherwise, a function
// returns the text to put between [ and ] of a PCRE2 character class.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

// Returns the character as \x{HEX}, with its code point in hexadecimal.
std::string escaped(char32_t character);

// Return \s and \S.
std::string white_space_members();
std::string non_white_space_members();

// Returns \p{category} for a general category ("L", "Nd"); nullopt if unsupported. Unsupported are
// "Cs" and the three categories that have lost characters since Unicode 14, because a list of class
// members cannot exclude a character: "C" and "Cn" (characters were assigned), and "Mn" (U+1171E is
// now "Mc").
std::optional<std::string> category_members(std::string_view category);

// Returns Oniguruma's \w: letters, marks, decimal and letter numbers, connectors, circled letters.
// in_class: \w is written inside [...]; outside, it also has the superscripts and fractions of
// Latin-1.
std::string word_members(bool in_class);

// Returns \w of Rust's regex crate: word_members(true) and the joiners U+200C and U+200D.
std::string rust_word_members();

// Returns a whole expression that matches one punctuation character, as the `tokenizers` library
// defines punctuation: the ASCII symbols, and the punctuation of Unicode 8.
std::string punctuation_expression();

}  // namespace colossal::text
