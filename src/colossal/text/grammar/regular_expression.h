// Turns regular expressions into grammar rules.
#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds rules for the texts that a regular expression matches as a whole and returns the symbol that
// matches them. Supports characters, classes, \d \w \s (ASCII only) and \D \W \S, groups,
// alternatives, repetitions, and "^" and "$" at the ends. Throws GrammarError naming any other
// construct, such as assertions, backreferences and Unicode properties, and if the expression is
// invalid, longer than 64 KiB, or not UTF-8.
//
// within_json: the text stands between the quotes of a JSON string. No part of the expression then
// matches a character that JSON must escape: a control character, '"' or '\'.
Symbol add_regular_expression(Grammar& grammar, std::string_view expression,
                              bool within_json = false);

}  // namespace colossal::text::grammar
