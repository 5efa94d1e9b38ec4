// Translates the regular expressions of tokenizer.json from Oniguruma to PCRE2 syntax.
//
// The two syntaxes are similar, but some constructs differ in meaning (\s, \w, \v, \h, ^ within a
// text, {,n}, nested classes, case folding), and the two libraries support different versions of
// Unicode. Each construct that PCRE2 can express is translated so that it matches the same
// characters; any other construct is an error. The source syntax is ONIG_SYNTAX_ONIGURUMA, which
// the `tokenizers` library uses.
#pragma once

#include <string>
#include <string_view>

namespace colossal::text {

// Returns an expression for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE with newline = LF. Throws
// ConfigError naming the expression and the construct that PCRE2 cannot express.
std::string oniguruma_to_pcre2(std::string_view expression);

// Returns an expression that matches `text` (valid UTF-8) literally.
std::string literal_to_pcre2(std::string_view text);

}  // namespace colossal::text
