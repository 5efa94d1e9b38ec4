#pragma once

#include <string_view>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Adds a symbol for the texts of rule `root` of a grammar in GBNF, as llama.cpp reads it: rules
// NAME ::= ..., texts "...", classes [a-z] and [^a-z], any character ., groups, alternatives, the
// repetitions * + ? {m} {m,} {m,n}, comments behind #. Throws GrammarError for what is wrong,
// naming the line, for a name without a rule, and for a rule that begins with itself.
// https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
Symbol add_gbnf(Grammar& grammar, std::string_view text);

}  // namespace colossal::text::grammar
