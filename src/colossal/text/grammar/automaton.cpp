#include "colossal/text/grammar/automaton.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace colossal::text::grammar {
namespace {

constexpr size_t kMaxStates = 30'000;
constexpr int32_t kMaxStack = 500;               // most nested rules
constexpr size_t kMaxStacks = 10'000;            // most stacks of a state
constexpr size_t kMaxIndices = size_t{1} << 22;  // entries of all stacks; each stack is stored
                                                 // twice
constexpr size_t kMaxWork = 50'000'000;
constexpr int32_t kNone = INT32_MAX;  // height of a rule that matches no text

// Returns, for each rule, how many indices a stack must have room for, above those of the rules
// around it, to complete the rule in the least nested way; kNone if the rule matches no text.
class Heights {
 public:
  // Makes the lowest rules final first (D. Knuth, "A Generalization of Dijkstra's Algorithm",
  // 1977).
  explicit Heights(const Grammar& grammar)
      : heights_(static_cast<size_t>(grammar.num_rules()), kNone) {
    struct Counted {
      int32_t rule;
      const Sequence* sequence;
      size_t missing;  // its rules that have no height yet
    };
    std::vector<Counted> sequences;
    std::vector<std::vector<size_t>> needed_by(heights_.size());
    using Found = std::pair<int32_t, int32_t>;  // height, rule
    std::priority_queue<Found, std::vector<Found>, std::greater<>> found;
    const auto take = [&](const Counted& each) {
      const int32_t height = height_of(*each.sequence);
      if (height != kNone) found.emplace(height, each.rule);
    };
    for (int32_t rule = 0; rule < grammar.num_rules(); ++rule) {
      for (const Sequence& sequence : grammar.alternatives(rule)) {
        size_t missing = 0;
        for (const Symbol& symbol : sequence) {
          if (symbol.rule == Symbol::kBytes) continue;
          needed_by[static_cast<size_t>(symbol.rule)].push_back(sequences.size());
          ++missing;
        }
        sequences.push_back({rule, &sequence, missing});
        if (missing == 0) take(sequences.back());
      }
    }
    while (!found.empty()) {
      const auto [height, rule] = found.top();
      found.pop();
      int32_t& known = heights_[static_cast<size_t>(rule)];
      if (known != kNone) continue;
      known = height;
      for (const size_t sequence : needed_by[static_cast<size_t>(rule)]) {
        if (--sequences[sequence].missing == 0) take(sequences[sequence]);
      }
    }
  }

  int32_t height_of(const Symbol& symbol) const {
    if (symbol.rule == Symbol::kBytes) return symbol.bytes.any() ? 0 : kNone;
    return heights_[static_cast<size_t>(symbol.rule)];
  }
  int32_t height_of(const Sequence& sequence) const {
    int32_t height = 0;
    for (size_t i = 0; i < sequence.size(); ++i) {
      const int32_t of_symbol = height_of(sequence[i]);
      if (of_symbol == kNone) return kNone;
      // The last symbol takes the place of its sequence.
      const bool is_last_rule = i + 1 == sequence.size() && sequence[i].rule >= 0;
      height = std::max(height, of_symbol + (is_last_rule ? 0 : 1));
    }
    return height;
  }

 private:
  std::vector<int32_t> heights_;
};

}  // namespace

struct Automaton::Program {
  struct Alternative {
    int32_t begin;   // index in `symbols`
    int32_t height;  // see Heights
  };

  // Value of Symbol::rule that marks the end of a sequence in `symbols`.
  static constexpr int32_t kEndOfSequence = -2;
  // The sequences of all alternatives, one after the other, each ended by kEndOfSequence. The first
  // one is the root.
  std::vector<Symbol> symbols;
  // By rule. Alternatives that match no text are left out.
  std::vector<std::vector<Alternative>> alternatives;

  Program(const Grammar& grammar, const Symbol& root) {
    const auto add_sequence = [&](const Sequence& sequence) {
      const auto begin = static_cast<int32_t>(symbols.size());
      symbols.insert(symbols.end(), sequence.begin(), sequence.end());
      symbols.push_back({.rule = kEndOfSequence});
      return begin;
    };
    const Heights heights(grammar);
    if (heights.height_of(root) == kNone) {
      throw GrammarError("no text fits the expression, schema or grammar");
    }
    if (heights.height_of(root) > kMaxStack) {
      throw GrammarError("what the expression or schema demands is nested too deeply");
    }
    add_sequence({root});
    for (int32_t rule = 0; rule < grammar.num_rules(); ++rule) {
      alternatives.emplace_back();
      for (const Sequence& sequence : grammar.alternatives(rule)) {
        const int32_t height = heights.height_of(sequence);
        if (height == kNone) continue;
        alternatives.back().push_back({add_sequence(sequence), height});
      }
    }
  }
};

Automaton::Automaton(const Grammar& grammar, const Symbol& root)
    : Automaton(std::make_shared<const Program>(grammar, root)) {}

Automaton::Automaton(std::shared_ptr<const Program> program) : program_(std::move(program)) {
  Stacks stacks;
  std::set<Stack> seen;
  expand({0}, stacks, seen);
  start_ = intern(std::move(stacks));
}

// Expands rules until a byte is next. seen: stacks that were already expanded, so that rules that
// may be empty do not repeat forever.
void Automaton::expand(Stack first, Stacks& reached, std::set<Stack>& seen) {
  const std::vector<Symbol>& symbols = program_->symbols;
  std::vector<Stack> open{std::move(first)};
  while (!open.empty()) {
    Stack stack = std::move(open.back());
    open.pop_back();
    work_ += stack.size() + 1;
    if (work_ > kMaxWork) {
      throw GrammarError("what the expression or schema allows takes too long to follow");
    }
    while (!stack.empty() && symbols[stack.back()].rule == Program::kEndOfSequence) {
      stack.pop_back();
    }
    if (stack.empty()) {
      reached.may_end = true;
      continue;
    }
    // Positions that are left out can be missed: the others can be completed.
    if (reached.stacks.size() >= kMaxStacks || !seen.insert(stack).second) continue;
    const Symbol& symbol = symbols[stack.back()];
    if (symbol.rule == Symbol::kBytes) {
      reached.stacks.push_back(std::move(stack));
      continue;
    }
    // If the rule ends its sequence, drops the sequence from the stack, as in a tail call:
    // repetitions then do not grow the stack.
    if (symbols[++stack.back()].rule == Program::kEndOfSequence) stack.pop_back();
    const auto size = static_cast<int32_t>(stack.size());
    for (const auto& [begin, height] : program_->alternatives[static_cast<size_t>(symbol.rule)]) {
      if (size + height > kMaxStack) continue;
      open.push_back(stack);
      open.back().push_back(begin);
    }
  }
}

bool Automaton::is_full() const {
  return states_.size() >= kMaxStates || indices_ >= kMaxIndices;
}

size_t Automaton::bytes() const {
  return states_.size() * (sizeof(next_[0]) + 2 * sizeof(Stacks)) +
         2 * indices_ * (sizeof(int32_t) + 8);
}

Automaton::State Automaton::intern(Stacks stacks) {
  std::ranges::sort(stacks.stacks);
  const auto known = state_of_stacks_.find(stacks);
  if (known != state_of_stacks_.end()) return known->second;
  if (is_full()) throw GrammarError("the expression or schema leads to too many states");
  for (const Stack& stack : stacks.stacks) indices_ += stack.size();
  const auto number = static_cast<State>(states_.size());
  states_.push_back(stacks);
  next_.emplace_back().fill(kUnknown);
  state_of_stacks_.emplace(std::move(stacks), number);
  return number;
}

Automaton::State Automaton::adopt(const Automaton& other, State state) {
  return state == kDead ? kDead : intern(other.states_[static_cast<size_t>(state)]);
}

Automaton::State Automaton::next(State state, unsigned char byte) {
  if (state == kDead) return kDead;
  const State known = next_[static_cast<size_t>(state)][byte];
  if (known != kUnknown) return known;
  Stacks reached;
  std::set<Stack> seen;
  for (const Stack& stack : states_[static_cast<size_t>(state)].stacks) {
    if (!program_->symbols[stack.back()].bytes.test(byte)) continue;
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
