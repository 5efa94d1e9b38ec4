#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds a symbol for the texts that a regular expression matches from their beginning to their end:
// characters, classes, \d \w \s (of ASCII) and their opposites, groups, alternatives, repetitions;
// "^" and "$" at the ends. Throws GrammarError for what else there is (assertions, references to
// groups, properties), naming it.
//
// With `within_json` the text stands between the quotes of a JSON string: characters that would
// have to be escaped there are not matched.
Symbol add_regular_expression(Grammar& grammar, std::string_view expression,
                              bool within_json = false);

}  // namespace colossal::text::grammar
