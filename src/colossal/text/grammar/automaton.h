// Matches text against a grammar, byte by byte.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// A lazily built deterministic automaton: computes each transition when it is first taken and
// caches it in a table. Not thread-safe.
class Automaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  // no text of the grammar begins like this

  // Matches the texts of `root`. The grammar need not outlive the automaton. Throws GrammarError
  // like next().
  Automaton(const Grammar& grammar, const Symbol& root);

  State start() const { return start_; }
  // Return the state that `state` leads to by the byte or bytes; kDead leads to kDead. Throw
  // GrammarError if the grammar needs too many or too large states, nests too deeply, or has needed
  // too much work since begin_work().
  State next(State state, unsigned char byte);
  State next(State state, std::string_view bytes);
  // Resets the count of work, which limits the calls of next() that follow to about a second in
  // all.
  void begin_work() { work_ = 0; }
  // may_end: the text may end in this state. must_end: no byte can follow. state: not kDead.
  bool may_end(State state) const { return states_[static_cast<size_t>(state)].may_end; }
  bool must_end(State state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }

 private:
  // Indices into symbols_ at which parsing continues, one for each begun rule of which symbols
  // remain, the outermost first. The symbol at the last index is matched next; in a state, it is a
  // byte set.
  using Stack = std::vector<int32_t>;
  // A state: all positions in the grammar that the text so far may have reached.
  struct Stacks {
    std::vector<Stack> stacks;  // sorted
    bool may_end = false;
    auto operator<=>(const Stacks&) const = default;
  };
  static constexpr State kUnknown = -2;  // in next_: not computed yet

  // Adds to `reached` the stacks that `stack` becomes when rules on its top are replaced by their
  // alternatives until a byte set is on top. seen: the stacks expanded before.
  void expand(Stack stack, Stacks& reached, std::vector<Stack>& seen);
  // Returns the number of the state, after adding it if it is new.
  State intern(Stacks stacks);

  static constexpr int32_t kEndOfSequence = -2;  // a rule number that marks the end of a sequence
  std::vector<Symbol> symbols_;                  // all sequences, each terminated by kEndOfSequence
  // By rule: the index in symbols_ at which each alternative begins.
  std::vector<std::vector<int32_t>> begins_;
  size_t work_ = 0;     // stack elements visited since begin_work()
  size_t indices_ = 0;  // number of indices in the stacks of all states
  State start_;
  std::map<Stacks, State> state_of_stacks_;   // the inverse of states_
  std::vector<Stacks> states_;                // by state
  std::vector<std::array<State, 256>> next_;  // by state and byte
};

}  // namespace colossal::text::grammar
