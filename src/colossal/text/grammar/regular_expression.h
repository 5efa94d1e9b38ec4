// Turns regular expressions into grammar rules.
#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// What an expression means where libraries differ.
enum class Dialect {
  plain,  // \d \w \s are ASCII only, "." is any character but a line feed
  // What JavaScript (JSON Schema's dialect) and Python agree on: a character is left out where only
  // one of them matches it. So \W matches ASCII characters only, and "." no line separators.
  json_schema,
  // What JavaScript or Python matches.
  any_of_json_schema
};

// Adds rules for the texts that a regular expression matches as a whole and returns the symbol that
// matches them. Supports characters, classes, \d \w \s and \D \W \S, groups, alternatives,
// repetitions, and "^" and "$" at the ends. Throws GrammarError naming any other construct, such as
// assertions, backreferences and Unicode properties, and if the expression is invalid, longer than
// 64 KiB, or not UTF-8.
Symbol add_regular_expression(Grammar& grammar, std::string_view expression,
                              Dialect dialect = Dialect::plain);

// Adds rules for the texts of which a part matches the expression, as in JSON Schema's "pattern".
// Throws as add_regular_expression() does.
Symbol add_pattern(Grammar& grammar, std::string_view pattern,
                   Dialect dialect = Dialect::json_schema);

}  // namespace colossal::text::grammar
