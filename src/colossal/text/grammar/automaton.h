// Matches text against a Grammar byte by byte. Constrained decoding uses it to find which tokens
// may follow the text that a model has written so far.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// A deterministic automaton whose states and transitions are computed when they are first needed,
// and cached. A state is a small integer that stands for all positions in the grammar that a text
// may have reached. Not thread-safe.
class Automaton {
 public:
  using State = int32_t;
  // The state of a text with which no text of the grammar begins.
  static constexpr State kDead = -1;

  // Matches the texts that `root`, a symbol of `grammar`, matches. The grammar need not outlive the
  // automaton. Throws GrammarError under the conditions of next().
  Automaton(const Grammar& grammar, const Symbol& root);

  // Returns the state of the empty text.
  State start() const { return start_; }
  // Return the state after `byte` or `bytes` are appended to a text in `state`. kDead leads to
  // kDead.
  // Throw GrammarError if the grammar needs too many or too large states, nests too deeply, or
  // exceeds the limit on work since begin_work().
  State next(State state, unsigned char byte);
  State next(State state, std::string_view bytes);
  // Sets the count of work to 0. The count limits the calls of next() that follow to about one
  // second in all.
  void begin_work() { work_ = 0; }
  // Returns true if a text in this state is a whole text of the grammar. state: not kDead.
  bool may_end(State state) const { return states_[static_cast<size_t>(state)].may_end; }
  // Returns true if no byte can follow a text in this state. state: not kDead.
  bool must_end(State state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }

 private:
  // One position in the grammar: indices into symbols_, one for each rule (or the root) that has
  // begun and is not finished, outermost rule first. Each index is that of the rule's next symbol.
  // The last index is that of the symbol to match next; in the stacks of a state, this symbol is a
  // byte set.
  using Stack = std::vector<int32_t>;
  // What a state stands for: all positions that a text may have reached.
  struct Stacks {
    std::vector<Stack> stacks;  // sorted
    bool may_end = false;       // the text may also end here
    auto operator<=>(const Stacks&) const = default;
  };
  static constexpr State kUnknown = -2;  // in next_: not yet computed

  // If the symbol on top of `stack` is a rule, replaces it by each alternative of the rule, and
  // repeats this until a byte set is on top. Adds the resulting stacks to `reached`. seen: sorted
  // stacks that were expanded before, which are skipped.
  void expand(Stack stack, Stacks& reached, std::vector<Stack>& seen);
  // Returns the number of the state `stacks`; adds the state if it is new.
  State intern(Stacks stacks);

  // Value of Symbol::rule that marks the end of a sequence in symbols_.
  static constexpr int32_t kEndOfSequence = -2;
  // The sequences of all alternatives, one after the other, each ended by kEndOfSequence.
  std::vector<Symbol> symbols_;
  // begins_[rule][alternative]: index in symbols_ at which this alternative begins.
  std::vector<std::vector<int32_t>> begins_;
  size_t work_ = 0;     // stack elements visited since begin_work()
  size_t indices_ = 0;  // number of indices in the stacks of all states
  State start_;
  std::map<Stacks, State> state_of_stacks_;   // the inverse of states_
  std::vector<Stacks> states_;                // by state
  std::vector<std::array<State, 256>> next_;  // next_[state][byte]: the state after `byte`
};

}  // namespace colossal::text::grammar
