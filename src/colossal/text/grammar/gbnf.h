// Reads grammars in GBNF, llama.cpp's notation, with which a request restricts what a model writes.
#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds the rules of a GBNF grammar to `grammar` and returns the symbol of the rule "root". Supports
// - rules: NAME ::= ...
// - literals "...", classes [a-z] and [^a-z], and "." for any character
// - groups (...) and alternatives a | b
// - repetitions * + ? {m} {m,} {m,n}
// - comments from # to the end of the line
//
// Throws GrammarError for a syntax error (naming the line), an undefined rule, a missing rule
// "root", left recursion, a text that is not valid UTF-8, or a grammar of more than 64 KiB.
// https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
Symbol add_gbnf(Grammar& grammar, std::string_view text);

}  // namespace colossal::text::grammar
