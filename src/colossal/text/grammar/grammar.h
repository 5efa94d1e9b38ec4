// Which texts may be written: rules over bytes, made from regular expressions and JSON schemas.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::text::grammar {

// What is wrong with an expression or a schema, or not supported in it.
class GrammarError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

using ByteSet = std::bitset<256>;

struct CodePoints {
  char32_t first, last;
};

// One byte of a set, or whatever a rule gives.
struct Symbol {
  static constexpr int32_t kBytes = -1;
  int32_t rule = kBytes;
  ByteSet bytes = {};
};
using Sequence = std::vector<Symbol>;

// A rule is one of its alternatives. Rules may hold themselves, but not begin with themselves.
class Grammar {
 public:
  int32_t add_rule() { return static_cast<int32_t>(rules_.emplace_back(), rules_.size()) - 1; }
  // Throws GrammarError where the grammar grows beyond any use.
  void add_alternative(int32_t rule, Sequence sequence);
  Symbol rule_of(std::vector<Sequence> alternatives);

  const std::vector<Sequence>& alternatives(int32_t rule) const {
    return rules_[static_cast<size_t>(rule)];
  }
  int32_t num_rules() const { return static_cast<int32_t>(rules_.size()); }

  // What common needs give; all of them UTF-8.
  static Sequence literal(std::string_view text);
  Symbol character(const std::vector<CodePoints>& ranges);
  Symbol optional(const Symbol& symbol) { return rule_of({{}, {symbol}}); }
  // From `minimum` to `maximum` times; below 0: any number.
  Sequence repeated(const Symbol& symbol, int64_t minimum, int64_t maximum);

 private:
  std::vector<std::vector<Sequence>> rules_;
  size_t num_symbols_ = 0;
};

// All code points that are characters, but these.
std::vector<CodePoints> complement(std::vector<CodePoints> ranges);

}  // namespace colossal::text::grammar
