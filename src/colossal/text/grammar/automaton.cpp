#include "colossal/text/grammar/automaton.h"

#include <algorithm>

namespace colossal::text::grammar {
namespace {

constexpr size_t kMaxStates = 50'000;
constexpr size_t kMaxStack = 500;                // most nested rules
constexpr size_t kMaxStacks = 2000;              // most stacks of a state
constexpr size_t kMaxIndices = size_t{1} << 23;  // entries of all stacks; each stack is stored
                                                 // twice
constexpr size_t kMaxWork = 50'000'000;

}  // namespace

Automaton::Automaton(const Grammar& grammar, const Symbol& root) {
  const auto add_sequence = [&](const Sequence& sequence) {
    const auto begin = static_cast<int32_t>(symbols_.size());
    symbols_.insert(symbols_.end(), sequence.begin(), sequence.end());
    symbols_.push_back({.rule = kEndOfSequence});
    return begin;
  };
  const int32_t begin = add_sequence({root});
  for (int32_t rule = 0; rule < grammar.num_rules(); ++rule) {
    begins_.emplace_back();
    for (const Sequence& sequence : grammar.alternatives(rule)) {
      begins_.back().push_back(add_sequence(sequence));
    }
  }
  Stacks stacks;
  std::vector<Stack> seen;
  expand({begin}, stacks, seen);
  start_ = intern(std::move(stacks));
}

// Expands rules until a byte is next. seen: stacks that were already expanded, so that rules that
// may be empty do not recurse forever.
void Automaton::expand(Stack stack, Stacks& reached, std::vector<Stack>& seen) {
  work_ += stack.size() + 1;
  if (work_ > kMaxWork) {
    throw GrammarError("what the expression or schema allows takes too long to follow");
  }
  while (!stack.empty() && symbols_[stack.back()].rule == kEndOfSequence) stack.pop_back();
  if (stack.empty()) {
    reached.may_end = true;
    return;
  }
  const auto place = std::ranges::lower_bound(seen, stack);
  if (place != seen.end() && *place == stack) return;
  if (stack.size() > kMaxStack || seen.size() > kMaxStacks) {
    throw GrammarError("what the expression or schema allows is nested too deeply");
  }
  seen.insert(place, stack);
  const Symbol& symbol = symbols_[stack.back()];
  if (symbol.rule == Symbol::kBytes) {
    reached.stacks.push_back(std::move(stack));
    return;
  }
  // If the rule ends its sequence, drops the sequence from the stack, as in a tail call:
  // repetitions then do not grow the stack.
  if (symbols_[++stack.back()].rule == kEndOfSequence) stack.pop_back();
  for (const int32_t begin : begins_[static_cast<size_t>(symbol.rule)]) {
    stack.push_back(begin);
    expand(stack, reached, seen);
    stack.pop_back();
  }
}

Automaton::State Automaton::intern(Stacks stacks) {
  std::ranges::sort(stacks.stacks);
  const auto known = state_of_stacks_.find(stacks);
  if (known != state_of_stacks_.end()) return known->second;
  if (states_.size() >= kMaxStates) {
    throw GrammarError("the expression or schema leads to too many states");
  }
  size_t indices = 0;
  for (const Stack& stack : stacks.stacks) indices += stack.size();
  if (indices_ + indices > kMaxIndices) {
    throw GrammarError("the expression or schema leads to states that are too large");
  }
  indices_ += indices;
  const auto number = static_cast<State>(states_.size());
  states_.push_back(stacks);
  next_.emplace_back().fill(kUnknown);
  state_of_stacks_.emplace(std::move(stacks), number);
  return number;
}

Automaton::State Automaton::next(State state, unsigned char byte) {
  if (state == kDead) return kDead;
  const State known = next_[static_cast<size_t>(state)][byte];
  if (known != kUnknown) return known;
  Stacks reached;
  std::vector<Stack> seen;
  for (const Stack& stack : states_[static_cast<size_t>(state)].stacks) {
    if (!symbols_[stack.back()].bytes.test(byte)) continue;
    Stack after = stack;
    ++after.back();
    expand(std::move(after), reached, seen);
  }
  const State number =
      reached.stacks.empty() && !reached.may_end ? kDead : intern(std::move(reached));
  return next_[static_cast<size_t>(state)][byte] = number;
}

Automaton::State Automaton::next(State state, std::string_view bytes) {
  for (const char byte : bytes) state = next(state, static_cast<unsigned char>(byte));
  return state;
}

}  // namespace colossal::text::grammar
