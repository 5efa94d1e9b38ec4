// Matches text against a Grammar byte by byte. Constrained decoding uses it to find which tokens
// may follow the text that a model has written so far.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// A deterministic automaton whose states and transitions are computed when they are first needed,
// and cached. A state is a small integer that stands for all positions in the grammar that a text
// may have reached. Every text in a state that is not dead can be completed. Not thread-safe.
//
// Limits leave texts out, so that no text fails midway: positions nested deeper than 500 rules, and
// positions of a state beyond the first 10,000, are dropped, where others are left.
class Automaton {
 public:
  using State = int32_t;
  // The state of a text that is not the beginning of any text of the grammar.
  static constexpr State kDead = -1;
  // What next() needs of a grammar; automata can share it.
  struct Program;

  // Matches the texts that `root`, a symbol of `grammar`, matches. The grammar need not outlive the
  // automaton. Throws GrammarError if there is no such text, or if the first state alone takes too
  // much work.
  Automaton(const Grammar& grammar, const Symbol& root);
  // Makes an automaton without cached states.
  explicit Automaton(std::shared_ptr<const Program> program);

  const std::shared_ptr<const Program>& program() const { return program_; }
  // Returns the state here that stands for the same positions as `state` of `other`, an automaton
  // of the same program.
  State adopt(const Automaton& other, State state);

  // Returns the state of the empty text.
  State start() const { return start_; }
  // Return the state after `byte` or `bytes` are appended to a text in `state`; kDead if
  // `state` is kDead. Throw GrammarError if the automaton is full, or when the count of
  // begin_work() reaches about one second of work.
  State next(State state, unsigned char byte);
  State next(State state, std::string_view bytes);
  // The constructor and next() count their work. This function sets the count to 0: call it
  // whenever another second may be spent.
  void begin_work() { work_ = 0; }
  // Returns whether the automaton has as many states as it may have. Make another one then.
  bool is_full() const;
  // Returns about how many bytes the cached states take.
  size_t bytes() const;
  // Returns true if a text in this state is a whole text of the grammar. state: not kDead.
  bool may_end(State state) const { return states_[static_cast<size_t>(state)].may_end; }
  // Returns true if no byte can follow a text in this state. state: not kDead.
  bool must_end(State state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }

 private:
  // One position in the grammar: indices into the program's symbols, one for each rule (or the
  // root) that has begun and has symbols left to match, outermost rule first. Each index is that of
  // the rule's next symbol. The last index is that of the symbol to match next; in the stacks of a
  // state, this symbol is a byte set.
  using Stack = std::vector<int32_t>;
  // What a state stands for: all positions that a text may have reached.
  struct Stacks {
    std::vector<Stack> stacks;  // sorted
    bool may_end = false;       // the text may also end here
    auto operator<=>(const Stacks&) const = default;
  };
  static constexpr State kUnknown = -2;  // in next_: not yet computed

  // Adds to `reached` the stacks to which `first` leads without a further byte. Sequences that have
  // ended are dropped from the stack; if none is left, sets reached.may_end. If the symbol on top
  // (the last index) is a rule, replaces it by each alternative of the rule. Repeats both until a
  // byte set is on top. seen: stacks that were expanded before, which are skipped.
  void expand(Stack first, Stacks& reached, std::set<Stack>& seen);
  // Returns the number of the state `stacks`; adds the state if it is new.
  State intern(Stacks stacks);

  std::shared_ptr<const Program> program_;
  size_t work_ = 0;     // stack elements visited since begin_work()
  size_t indices_ = 0;  // number of indices in the stacks of all states
  State start_;
  std::map<Stacks, State> state_of_stacks_;   // the inverse of states_
  std::vector<Stacks> states_;                // by state
  std::vector<std::array<State, 256>> next_;  // next_[state][byte]: the state after `byte`
};

}  // namespace colossal::text::grammar
