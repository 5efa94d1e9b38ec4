#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds rules for the texts that a regular expression matches as a whole and returns their symbol.
// Supports characters, classes, \d \w \s (ASCII only) and \D \W \S, groups, alternatives,
// repetitions, and "^" and "$" at the ends. Throws GrammarError naming any other construct
// (assertions, backreferences, Unicode properties).
//
// within_json: the text stands between the quotes of a JSON string, where characters that JSON must
// escape match nothing.
Symbol add_regular_expression(Grammar& grammar, std::string_view expression,
                              bool within_json = false);

}  // namespace colossal::text::grammar
