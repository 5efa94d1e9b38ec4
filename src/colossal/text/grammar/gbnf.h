#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds the rules of a GBNF grammar (llama.cpp's notation) to `grammar` and returns the symbol of
// its rule "root". Supports rules NAME ::= ..., literals "...", classes [a-z] and [^a-z], "." for
// any character, groups, alternatives, the repetitions * + ? {m} {m,} {m,n}, and comments after #.
// Throws GrammarError for a syntax error (naming the line), an undefined rule, or left recursion.
// https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
Symbol add_gbnf(Grammar& grammar, std::string_view text);

}  // namespace colossal::text::grammar
