#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// The texts that a regular expression matches from their beginning to their end: characters,
// classes, \d \w \s (of ASCII) and their opposites, groups, alternatives, repetitions; "^" and "$"
// at the ends. Throws GrammarError for what else there is (assertions, references to groups,
// properties), naming it.
//
// within_json: what the expression matches stands between the quotes of a JSON string. It matches
// no characters that would have to be escaped there.
Symbol add_regular_expression(Grammar& grammar, std::string_view expression,
                              bool within_json = false);

}  // namespace colossal::text::grammar
