// Rules for the strings of a schema with conditions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/byte_automaton.h"

namespace colossal::text::grammar {

// Conditions on a string.
struct StringConditions {
  int64_t minimum = 0, maximum = -1;  // characters; negative maximum: no limit
  std::vector<std::string> patterns, formats;

  // Returns whether only lengths are limited.
  bool are_lengths() const { return patterns.empty() && formats.empty(); }
  bool is_empty() const { return are_lengths() && minimum == 0 && maximum < 0; }

  // Returns the automaton of the strings, as UTF-8 without quotes or escapes. With patterns or
  // formats, an automaton that would be too large has fewer of the long strings. Throws
  // GrammarError for patterns and formats that are not supported.
  ByteAutomaton automaton() const;
  // Returns whether a string meets the conditions.
  bool admit(const std::string& text) const;
};

// Returns the automaton of the texts that match a "pattern": where libraries differ, those that all
// match, or with `any` those that one matches.
ByteAutomaton texts_matching(const std::string& pattern, bool any);

// Returns whether the format places no condition on a string, such as "password".
bool is_annotation(std::string_view format);

}  // namespace colossal::text::grammar
