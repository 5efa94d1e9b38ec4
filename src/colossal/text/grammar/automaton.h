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
// may have reached. The constructor and next() throw GrammarError if the grammar needs too many or
// too large states, nests too deeply, or exceeds the limit on work (see begin_work()). Not
// thread-safe.
class Automaton {
 public:
  using State = int32_t;
  // The state of a text that is not the beginning of any text of the grammar.
  static constexpr State kDead = -1;

  // Matches the texts that `root`, a symbol of `grammar`, matches. The grammar need not outlive the
  // automaton.
  Automaton(const Grammar& grammar, const Symbol& root);

  // Returns the state of the empty text.
  State start() const { return start_; }
  // Return the state after `byte` or `bytes` are appended to a text in `state`; kDead if
  // `state` is kDead.
  State next(State state, unsigned char byte);
  State next(State state, std::string_view bytes);
  // The constructor and next() count their work, and throw GrammarError when the count reaches
  // about one second of work. The constructor begins with a count of 0. This function sets the
  // count to 0 again: call it whenever another second may be spent.
  void begin_work() { work_ = 0; }
  // Returns true if a text in this state is a whole text of the grammar. state: not kDead.
  bool may_end(State state) const { return states_[static_cast<size_t>(state)].may_end; }
  // Returns true if no byte can follow a text in this state. state: not kDead.
  bool must_end(State state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }

 private:
  // One position in the grammar: indices into symbols_, one for each rule (or the root) that has
  // begun and has symbols left to match, outermost rule first. Each index is that of the rule's
  // next symbol. The last index is that of the symbol to match next; in the stacks of a state, this
  // symbol is a byte set.
  using Stack = std::vector<int32_t>;
  // What a state stands for: all positions that a text may have reached.
  struct Stacks {
    std::vector<Stack> stacks;  // sorted
    bool may_end = false;       // the text may also end here
    auto operator<=>(const Stacks&) const = default;
  };
  static constexpr State kUnknown = -2;  // in next_: not yet computed

  // Adds to `reached` the stacks to which `stack` leads without a further byte. Sequences that have
  // ended are dropped from the stack; if none is left, sets reached.may_end. If the symbol on top
  // (the last index) is a rule, replaces it by each alternative of the rule. Repeats both until a
  // byte set is on top. seen: sorted stacks that were expanded before, which are skipped.
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
