// Context-free grammars over bytes, which define the texts that a model may write under constrained
// decoding. They are built from regular expressions, JSON schemas or GBNF, and matched by an
// Automaton.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::text::grammar {

// Thrown for an expression, schema or grammar that is invalid or too large, or uses an unsupported
// feature. what() says which.
class GrammarError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// [byte]: whether the set contains this byte.
using ByteSet = std::bitset<256>;

// A range of characters; `first` and `last` are included.
struct CharacterRange {
  char32_t first, last;
};

// A part of an alternative. Matches one byte of a set, or any text that a rule matches.
struct Symbol {
  static constexpr int32_t kBytes = -1;
  // Number of the rule; kBytes: the symbol matches one byte of `bytes`.
  int32_t rule = kBytes;
  ByteSet bytes = {};
};
// Matches the texts of its symbols, one after the other. An empty sequence matches the empty text.
using Sequence = std::vector<Symbol>;

// A set of numbered rules. A rule matches what any of its alternatives matches. Rules may be
// recursive, but not left-recursive: no rule may begin with itself. Grammar does not check this; an
// Automaton may throw GrammarError when it reaches such a rule.
class Grammar {
 public:
  // Adds a rule without alternatives and returns its number. With the number, other rules can refer
  // to the rule before add_alternative() completes it.
  int32_t add_rule() { return static_cast<int32_t>(rules_.emplace_back(), rules_.size()) - 1; }
  // Adds an alternative to a rule. Throws GrammarError if the grammar becomes too large.
  void add_alternative(int32_t rule, Sequence sequence);
  // Adds a rule with these alternatives and returns a symbol for the rule. Throws GrammarError if
  // the grammar becomes too large.
  Symbol add_anonymous_rule(std::vector<Sequence> alternatives);

  // Returns the alternatives of a rule. Valid until a rule or an alternative is added.
  const std::vector<Sequence>& alternatives(int32_t rule) const {
    return rules_[static_cast<size_t>(rule)];
  }
  int32_t num_rules() const { return static_cast<int32_t>(rules_.size()); }

  // Returns a sequence that matches exactly the bytes of `text`.
  static Sequence literal(std::string_view text);
  // Returns a symbol that matches the UTF-8 of one character of the ranges, which may overlap and
  // be in any order; without ranges, the symbol matches nothing. Surrogates are left out. Adds
  // rules where needed. Throws GrammarError if the grammar becomes too large.
  Symbol character(const std::vector<CharacterRange>& ranges);
  // Returns a symbol that matches `symbol` or the empty text. Throws GrammarError if the grammar
  // becomes too large.
  Symbol optional(const Symbol& symbol) { return add_anonymous_rule({{}, {symbol}}); }
  // Returns a sequence that matches `symbol` repeated `minimum` to `maximum` times, both included.
  // minimum: at least 0. maximum: at least `minimum`; negative: no limit. Throws GrammarError for
  // more than 100,000 repetitions or if the grammar becomes too large.
  Sequence repeated(const Symbol& symbol, int64_t minimum, int64_t maximum);

 private:
  // Counts `count` further symbols. Throws GrammarError if the grammar then has too many.
  void count_symbols(size_t count);

  std::vector<std::vector<Sequence>> rules_;  // rules_[rule][alternative]
  size_t num_symbols_ = 0;
};

// Returns all Unicode code points that are not in `ranges`, as ascending ranges. ranges: in any
// order; may overlap. Exception: the result includes the surrogates even if they are in `ranges`;
// Grammar::character() leaves them out.
std::vector<CharacterRange> complement(std::vector<CharacterRange> ranges);

}  // namespace colossal::text::grammar
