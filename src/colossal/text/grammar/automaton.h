// Follows a text through a grammar, byte by byte.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "colossal/text/grammar/grammar.h"

namespace colossal::text::grammar {

// Makes a state when it is first reached and keeps it, so that later only a table is read. Not for
// several threads at once.
class Automaton {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;  // no text of the grammar begins so

  Automaton(const Grammar& grammar, const Symbol& root);

  State start() const { return start_; }
  // Throws GrammarError where the grammar leads to too many states, to too large ones, or takes too
  // much work since begin_work().
  State next(State state, unsigned char byte);
  State next(State state, std::string_view bytes);
  // Before a number of steps that shall take a second at most.
  void begin_work() { work_ = 0; }
  // Whether the text may end here; and whether it must.
  bool may_end(State state) const { return states_[static_cast<size_t>(state)].may_end; }
  bool must_end(State state) const { return states_[static_cast<size_t>(state)].stacks.empty(); }

 private:
  // Indices of symbols_ at which to go on. The last one is next, and is a byte.
  using Stack = std::vector<int32_t>;
  struct Stacks {
    std::vector<Stack> stacks;  // sorted
    bool may_end = false;
    auto operator<=>(const Stacks&) const = default;
  };
  static constexpr State kUnknown = -2;

  void expand(Stack stack, Stacks& reached, std::vector<Stack>& seen);
  State intern(Stacks stacks);

  static constexpr int32_t kEndOfSequence = -2;  // as a rule's number
  std::vector<Symbol> symbols_;                  // of all sequences, each with an end
  std::vector<std::vector<int32_t>> begins_;     // of each rule's alternatives
  size_t work_ = 0;                              // indices of stacks that were gone through
  size_t indices_ = 0;                           // of all states' stacks
  State start_;
  std::map<Stacks, State> numbers_;
  std::vector<Stacks> states_;
  std::vector<std::array<State, 256>> next_;
};

}  // namespace colossal::text::grammar
