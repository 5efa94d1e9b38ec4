// Finite automata over bytes, which can be intersected and complemented. Schemas use them for
// strings and numbers on which several keywords place conditions.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// A deterministic automaton with all its states. Functions that make one throw GrammarError if it
// would have too many states.
class ByteAutomaton {
 public:
  static constexpr int32_t kDead = -1;  // no text of the language begins so

  // Returns the automaton of a regular grammar, such as a regular expression.
  static ByteAutomaton of_grammar(const Grammar& grammar, const Symbol& root);
  // Returns the automaton of the UTF-8 texts of `minimum` to `maximum` characters. maximum:
  // negative: no limit.
  static ByteAutomaton of_lengths(int64_t minimum, int64_t maximum);
  // Returns the automaton of the UTF-8 texts that are not in `texts`.
  static ByteAutomaton of_other_texts(const std::set<std::string>& texts);
  // Returns the automaton with these states: numbers that `step` returns from the number `start`.
  // step: returns the state after a byte; kDead: none. may_end: whether a text may end in a state.
  static ByteAutomaton of_steps(int64_t start,
                                const std::function<int64_t(int64_t, unsigned char)>& step,
                                const std::function<bool(int64_t)>& may_end);

  // Returns the automaton of the texts of both.
  ByteAutomaton intersected(const ByteAutomaton& other) const;
  // Returns the automaton of the texts of this one that are not texts of `other`.
  ByteAutomaton without(const ByteAutomaton& other) const;

  bool matches(std::string_view text) const;
  // Returns whether the automaton matches no text at all.
  bool is_empty() const { return next_.empty() || !may_reach_end_[0]; }
  size_t num_states() const { return next_.size(); }

  // Adds rules for the texts and returns their symbol.
  Symbol add_to(Grammar& grammar) const;
  // Adds rules for the texts as they stand between the quotes of a JSON string: with escapes where
  // JSON demands them, and with no other escapes. The automaton's texts must be UTF-8.
  Symbol add_as_json_to(Grammar& grammar) const;

 private:
  // combine: whether a text may end, from whether it may end in each of the two automata.
  ByteAutomaton combined(const ByteAutomaton& other,
                         const std::function<bool(bool, bool)>& combine) const;
  // Finds the states from which a text can end.
  void find_ends();
  Symbol add_to(Grammar& grammar,
                const std::function<std::vector<Sequence>(const ByteSet&)>& write) const;

  // next_[state][byte]; state 0 is the start.
  std::vector<std::array<int32_t, 256>> next_;
  std::vector<bool> may_end_, may_reach_end_;
};

}  // namespace colossal::text::grammar
