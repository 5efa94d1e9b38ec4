#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds a symbol for the texts that a regular expression matches as a whole. Supports characters,
// classes, \d \w \s (ASCII only) and \D \W \S, groups, alternatives, repetitions, and "^" and "$"
// at the ends. Throws GrammarError naming any other construct (assertions, backreferences, Unicode
// properties).
//
// within_json: the text is written between the quotes of a JSON string, so characters that JSON
// would have to escape do not match.
Symbol add_regular_expression(Grammar& grammar, std::string_view expression,
                              bool within_json = false);

}  // namespace colossal::text::grammar
