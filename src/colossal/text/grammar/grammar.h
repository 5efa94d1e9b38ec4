// A grammar defines which texts a model may write. Its rules match bytes. They are built from
// regular expressions, JSON schemas or GBNF.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::text::grammar {

// Thrown for an expression, schema or grammar that is invalid or uses an unsupported feature;
// what() names it.
class GrammarError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

using ByteSet = std::bitset<256>;

// A range of characters, both ends included.
struct CodePoints {
  char32_t first, last;
};

// A symbol matches one byte of a set, or any text that a rule matches.
struct Symbol {
  static constexpr int32_t kBytes = -1;
  int32_t rule = kBytes;  // number of the rule; kBytes: matches a byte of `bytes`
  ByteSet bytes = {};
};
using Sequence = std::vector<Symbol>;

// A rule matches what any of its alternatives matches. Rules may be recursive, but not
// left-recursive.
class Grammar {
 public:
  // Adds a rule that has no alternatives yet and returns its number.
  int32_t add_rule() { return static_cast<int32_t>(rules_.emplace_back(), rules_.size()) - 1; }
  // Adds an alternative to a rule. Throws GrammarError if the grammar becomes too large.
  void add_alternative(int32_t rule, Sequence sequence);
  // Adds a rule with these alternatives and returns its symbol. Throws like add_alternative().
  Symbol add_anonymous_rule(std::vector<Sequence> alternatives);

  const std::vector<Sequence>& alternatives(int32_t rule) const {
    return rules_[static_cast<size_t>(rule)];
  }
  int32_t num_rules() const { return static_cast<int32_t>(rules_.size()); }

  // The following build common symbols and sequences, adding rules where they need any. They throw
  // GrammarError if the grammar becomes too large.
  static Sequence literal(std::string_view text);
  // Returns a symbol for one character of the ranges, in UTF-8; surrogates are left out.
  Symbol character(const std::vector<CodePoints>& ranges);
  Symbol optional(const Symbol& symbol) { return add_anonymous_rule({{}, {symbol}}); }
  // Returns `symbol` repeated `minimum` to `maximum` times; a negative maximum means no limit.
  Sequence repeated(const Symbol& symbol, int64_t minimum, int64_t maximum);

 private:
  void count_symbols(size_t count);

  std::vector<std::vector<Sequence>> rules_;
  size_t num_symbols_ = 0;
};

// Returns all Unicode characters (no surrogates) that are not in `ranges`.
std::vector<CodePoints> complement(std::vector<CodePoints> ranges);

}  // namespace colossal::text::grammar
