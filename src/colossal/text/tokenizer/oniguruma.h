// Translates regular expressions of tokenizer.json files to PCRE2. The `tokenizers` library
// compiles these expressions with the library Oniguruma, in the syntax ONIG_SYNTAX_ONIGURUMA;
// Colossal uses the library PCRE2.
//
// Some constructs have different meanings in the two libraries: \s, \w, \v, \h, ^ within a text,
// {,n}, nested classes, case folding. The libraries also support different versions of Unicode. A
// construct for which PCRE2 has an equivalent is translated to it, so that the translated
// expression matches the same characters. All other constructs are errors.
#pragma once

#include <string>
#include <string_view>

namespace colossal::text {

// Returns the PCRE2 expression, which Regex compiles (options PCRE2_UTF | PCRE2_UCP |
// PCRE2_MULTILINE, newline = LF). Groups no longer capture. Throws ConfigError naming the
// expression and the unsupported construct.
std::string oniguruma_to_pcre2(std::string_view expression);

// Returns a PCRE2 expression that matches exactly `text` (valid UTF-8).
std::string literal_to_pcre2(std::string_view text);

}  // namespace colossal::text
