// The character sets that tokenizers' regular expressions use. Unless noted otherwise, the results
// are members of a PCRE2 character class: the text between [ and ].
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

// Returns the character as \x{...}.
std::string escaped(char32_t character);

// Return \s and \S.
std::string white_space_members();
std::string non_white_space_members();

// Returns \p{category} for a general category ("L", "Nd"); nullopt if unsupported. Unsupported are
// "Cs" and the three categories that have lost characters since Unicode 14, which class members
// cannot express: "C" and "Cn" (characters were assigned), and "Mn" (U+1171E is now "Mc").
std::optional<std::string> category_members(std::string_view category);

// Returns Oniguruma's \w: letters, marks, decimal and letter numbers, connectors, circled letters;
// if not in_class, also the superscripts and fractions of Latin-1.
std::string word_members(bool in_class);

// Returns \w of Rust's regex crate, which also has the joiners U+200C and U+200D.
std::string rust_word_members();

// Returns a whole expression that matches one punctuation character, as the `tokenizers` library
// defines punctuation: the ASCII symbols, and the punctuation of Unicode 8.
std::string punctuation_expression();

}  // namespace colossal::text
