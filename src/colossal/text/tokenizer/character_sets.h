// Character sets of the regular expressions in tokenizer.json files, written for PCRE2. Used to
// translate these expressions (oniguruma.h) and to build the expressions of pre-tokenizers. Unless
// noted otherwise, a function returns the members of a PCRE2 character class: the text to put
// between [ and ].
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace colossal::text {

// Returns the escape sequence of the character, \x{HEX}. HEX: its code point in hexadecimal.
std::string escaped(char32_t character);

// Returns the characters with the Unicode property White_Space, which Oniguruma's \s matches.
std::string white_space_members();
// Returns all other characters, which \S matches.
std::string non_white_space_members();

// Returns the characters of a Unicode general category, such as "L" or "Nd", as of Unicode 16. The
// result is PCRE2's \p{...}, which has the characters of Unicode 14 (PCRE2 10.42), followed by the
// characters that the category has gained since. Returns nullopt for "C", "Cn" and "Mn", because
// these categories have lost characters since Unicode 14: members can be added to \p{...}, but not
// removed from it. Also returns nullopt for "Cs" (surrogates), and if `category` is no category.
std::optional<std::string> category_members(std::string_view category);

// Returns the characters that Oniguruma's \w matches: letters, marks, decimal digits, letter
// numbers, connector punctuation and circled letters. in_class: true: the characters for a \w that
// is written inside [...]; false: for a \w outside of a class, which also matches the superscript
// digits and fractions of Latin-1.
std::string word_members(bool in_class);

// Returns the characters that \w of Rust's regex crate matches: word_members(true), U+200C and
// U+200D.
std::string rust_word_members();

// Returns a whole PCRE2 expression, not class members. The expression matches one punctuation
// character as the `tokenizers` library defines punctuation: ASCII symbols, and the punctuation of
// Unicode 8.
std::string punctuation_expression();

}  // namespace colossal::text
