// Translates the regular expressions of tokenizer.json, written for Oniguruma, to PCRE2.
//
// Both read much the same language but give some of it another meaning (\s, \w, \v, \h, ^ in the
// middle of a text, {,n}, nested classes, case folding) and know different versions of Unicode.
// Everything with one meaning is translated so that it matches the same characters; everything
// else is refused by name. Oniguruma's "ONIG_SYNTAX_ONIGURUMA" is what `tokenizers` uses.
#pragma once

#include <string>
#include <string_view>

namespace colossal::text {

// The result is for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE with newline = LF.
// Throws ConfigError naming the construct that has no equal in PCRE2, and the expression.
std::string oniguruma_to_pcre2(std::string_view expression);

// An expression that matches `text` (valid UTF-8) literally.
std::string literal_to_pcre2(std::string_view text);

}  // namespace colossal::text
