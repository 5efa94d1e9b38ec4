// A grammar defines which texts a model may write. Its rules work on bytes and are built from
// regular expressions, JSON schemas, and GBNF.
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

struct CodePoints {
  char32_t first, last;
};

// A symbol matches one byte of a set, or any text of a rule.
struct Symbol {
  static constexpr int32_t kBytes = -1;
  int32_t rule = kBytes;
  ByteSet bytes = {};
};
using Sequence = std::vector<Symbol>;

// A rule matches the texts of any of its alternatives. Rules may be recursive, but not
// left-recursive.
class Grammar {
 public:
  int32_t add_rule() { return static_cast<int32_t>(rules_.emplace_back(), rules_.size()) - 1; }
  // Adds an alternative to a rule. Throws GrammarError if the grammar becomes too large.
  void add_alternative(int32_t rule, Sequence sequence);
  Symbol add_anonymous_rule(std::vector<Sequence> alternatives);

  const std::vector<Sequence>& alternatives(int32_t rule) const {
    return rules_[static_cast<size_t>(rule)];
  }
  int32_t num_rules() const { return static_cast<int32_t>(rules_.size()); }

  // The following build common symbols; all texts are UTF-8.
  static Sequence literal(std::string_view text);
  Symbol character(const std::vector<CodePoints>& ranges);
  Symbol optional(const Symbol& symbol) { return add_anonymous_rule({{}, {symbol}}); }
  // Returns `symbol` repeated `minimum` to `maximum` times; a negative maximum means any number.
  Sequence repeated(const Symbol& symbol, int64_t minimum, int64_t maximum);

 private:
  void count_symbols(size_t count);

  std::vector<std::vector<Sequence>> rules_;
  size_t num_symbols_ = 0;
};

// Returns all Unicode characters (no surrogates) that are not in `ranges`.
std::vector<CodePoints> complement(std::vector<CodePoints> ranges);

}  // namespace colossal::text::grammar
