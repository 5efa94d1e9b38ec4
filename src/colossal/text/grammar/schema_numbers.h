// Rules for the numbers of a schema with bounds.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// A decimal number: digits before and after the point, without zeros that change nothing.
struct Decimal {
  bool is_negative = false;
  std::string whole = "0", fraction = "";

  // Returns the shortest decimal of a JSON number.
  static Decimal of(const nlohmann::ordered_json& number);
  bool is_whole() const { return fraction.empty(); }
};
// Returns a negative number if a < b, 0 if a == b, a positive number if a > b.
int compare(const Decimal& a, const Decimal& b);

// A bound of numbers; `is_exclusive`: the bound itself is not allowed.
struct Bound {
  Decimal value;
  bool is_exclusive = false;
};

// Conditions on a number.
struct NumberConditions {
  std::optional<Bound> minimum, maximum;
  int64_t multiple = 0;  // the number is a multiple of this one; 0: any number

  bool empty() const { return !minimum && !maximum && multiple == 0; }
  // Adds a condition: the stricter bound, the least common multiple.
  void require_minimum(const Bound& bound);
  void require_maximum(const Bound& bound);
  // Throws GrammarError if the common multiple becomes too large.
  void require_multiple(int64_t of);
  // Returns whether a number meets the conditions.
  bool admit(const nlohmann::ordered_json& number) const;
  // Returns whether no number can meet the conditions of both.
  bool exclude(const NumberConditions& other) const;
};

// Adds rules for the numbers that meet the conditions, in plain decimals without exponent, and
// returns their symbol. whole: only integers, of at most 18 digits. Other numbers have at most 15
// digits, so that no two of them are the same number in floating point. Throws GrammarError if a
// bound has more digits.
Symbol add_numbers(Grammar& grammar, const NumberConditions& conditions, bool whole);

}  // namespace colossal::text::grammar
