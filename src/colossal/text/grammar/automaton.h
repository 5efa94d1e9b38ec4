// Matches text against a grammar, byte by byte.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// A lazily built state machine: computes each transition when it is first taken and caches it in a
// table. Not thread-safe.
class Automaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  // no text of the grammar begins like this

  Automaton(const Grammar& grammar, const Symbol& root);

  State start() const { return start_; }
  // Return the state after the byte or bytes; kDead stays kDead. Throw GrammarError if the grammar
  // leads to too many or too large states, nests too deeply, or needs too much work since
  // begin_work().
  State next(State state, unsigned char byte);
  State next(State state, std::string_view bytes);
  // Resets the count of work. Call before a series of next() that should take at most a second.
  void begin_work() { work_ = 0; }
  // may_end: the text may end in this state. must_end: no byte can follow.
  bool may_end(State state) const { return states_[static_cast<size_t>(state)].may_end; }
  bool must_end(State state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }

 private:
  // Indices into symbols_ at which parsing continues, one for each open rule. The last index is the
  // next to match, and its symbol is a byte set.
  using Stack = std::vector<int32_t>;
  struct Stacks {
    std::vector<Stack> stacks;  // sorted
    bool may_end = false;
    auto operator<=>(const Stacks&) const = default;
  };
  static constexpr State kUnknown = -2;

  void expand(Stack stack, Stacks& reached, std::vector<Stack>& seen);
  State intern(Stacks stacks);

  static constexpr int32_t kEndOfSequence = -2;  // a rule number that marks the end of a sequence
  std::vector<Symbol> symbols_;                  // all sequences, each terminated by kEndOfSequence
  // per rule: where in symbols_ its alternatives begin
  std::vector<std::vector<int32_t>> begins_;
  size_t work_ = 0;     // stack elements visited since begin_work()
  size_t indices_ = 0;  // elements of the stacks of all states
  State start_;
  std::map<Stacks, State> numbers_;
  std::vector<Stacks> states_;
  std::vector<std::array<State, 256>> next_;
};

}  // namespace colossal::text::grammar
