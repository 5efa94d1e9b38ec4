#include "colossal/text/grammar/byte_automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "colossal/text/grammar/automaton.h"
#include "colossal/text/grammar/work_limit.h"

namespace colossal::text::grammar {
namespace {

constexpr size_t kMaxByteStates = 12'000;

void check_size(size_t states) {
  if (states > kMaxByteStates) {
    throw GrammarError(fmt::format("the conditions on a string or number need more than {} states",
                                   kMaxByteStates));
  }
}

// Returns how many bytes follow the first byte of a UTF-8 character; -1 for no first byte.
int following_bytes(unsigned char byte) {
  if (byte < 0x80) return 0;
  if (byte >= 0xC2 && byte <= 0xDF) return 1;
  if (byte >= 0xE0 && byte <= 0xEF) return 2;
  if (byte >= 0xF0 && byte <= 0xF4) return 3;
  return -1;
}

// Follows the bytes of one UTF-8 character. A state is 0 between characters; within a character, it
// tells what may follow (RFC 3629).
constexpr int kUtf8States = 8;
int utf8_step(int state, unsigned char byte) {
  const bool continues = byte >= 0x80 && byte <= 0xBF;
  switch (state) {
    case 0:
      if (byte == 0xE0) return 4;  // no overlong forms
      if (byte == 0xED) return 5;  // no surrogates
      if (byte == 0xF0) return 6;
      if (byte == 0xF4) return 7;  // nothing above U+10FFFF
      return following_bytes(byte);
    case 1:
    case 2:
    case 3:
      return continues ? state - 1 : -1;
    case 4:
      return continues && byte >= 0xA0 ? 1 : -1;
    case 5:
      return continues && byte < 0xA0 ? 1 : -1;
    case 6:
      return continues && byte >= 0x90 ? 2 : -1;
    default:
      return continues && byte < 0x90 ? 2 : -1;
  }
}

}  // namespace

ByteAutomaton ByteAutomaton::of_steps(int64_t start,
                                      const std::function<int64_t(int64_t, unsigned char)>& step,
                                      const std::function<bool(int64_t)>& may_end) {
  ByteAutomaton made;
  std::map<int64_t, int32_t> numbers;
  std::vector<int64_t> found;
  const auto number_of = [&](int64_t state) {
    const auto [known, is_new] = numbers.try_emplace(state, static_cast<int32_t>(found.size()));
    if (is_new) found.push_back(state);
    return known->second;
  };
  number_of(start);
  for (size_t i = 0; i < found.size(); ++i) {
    check_size(found.size());
    WorkLimit::count(256);
    made.may_end_.push_back(may_end(found[i]));
    auto& next = made.next_.emplace_back();
    for (int byte = 0; byte < 256; ++byte) {
      const int64_t after = step(found[i], static_cast<unsigned char>(byte));
      next[static_cast<size_t>(byte)] = after == kDead ? kDead : number_of(after);
    }
  }
  made.find_ends();
  return made;
}

ByteAutomaton ByteAutomaton::of_grammar(const Grammar& grammar, const Symbol& root) {
  Automaton automaton(grammar, root);
  return of_steps(
      automaton.start(),
      [&](int64_t state, unsigned char byte) {
        WorkLimit::count(3);  // a transition of a grammar takes longer than others
        return automaton.next(static_cast<Automaton::State>(state), byte);
      },
      [&](int64_t state) { return automaton.may_end(static_cast<Automaton::State>(state)); });
}

ByteAutomaton ByteAutomaton::of_lengths(int64_t minimum, int64_t maximum) {
  const int64_t most = maximum < 0 ? minimum : maximum;
  return of_steps(
      0,
      [=](int64_t state, unsigned char byte) -> int64_t {
        const int64_t length = state / kUtf8States;
        const int after = utf8_step(static_cast<int>(state % kUtf8States), byte);
        if (after < 0) return kDead;
        const bool begins = state % kUtf8States == 0;
        if (begins && length == most && maximum >= 0) return kDead;
        return std::min(length + (begins ? 1 : 0), most) * kUtf8States + after;
      },
      [=](int64_t state) { return state % kUtf8States == 0 && state / kUtf8States >= minimum; });
}

ByteAutomaton ByteAutomaton::of_other_texts(const std::set<std::string>& texts) {
  // A state is the prefix of a text: its number in `prefixes`, times the states of UTF-8. The last
  // number stands for all texts that are no such prefix.
  std::map<std::string, int64_t> numbers{{"", 0}};
  std::vector<std::string> prefixes{""};
  for (const std::string& text : texts) {
    for (size_t length = 1; length <= text.size(); ++length) {
      const std::string prefix = text.substr(0, length);
      if (numbers.try_emplace(prefix, std::ssize(prefixes)).second) prefixes.push_back(prefix);
    }
  }
  const int64_t other = std::ssize(prefixes);
  return of_steps(
      0,
      [&](int64_t state, unsigned char byte) -> int64_t {
        const int after = utf8_step(static_cast<int>(state % kUtf8States), byte);
        if (after < 0) return kDead;
        int64_t prefix = state / kUtf8States;
        if (prefix != other) {
          const auto known =
              numbers.find(prefixes[static_cast<size_t>(prefix)] + static_cast<char>(byte));
          prefix = known == numbers.end() ? other : known->second;
        }
        return prefix * kUtf8States + after;
      },
      [&](int64_t state) {
        const int64_t prefix = state / kUtf8States;
        const bool is_whole = state % kUtf8States == 0;
        return is_whole &&
               (prefix == other || !texts.contains(prefixes[static_cast<size_t>(prefix)]));
      });
}

ByteAutomaton ByteAutomaton::combined(const ByteAutomaton& other,
                                      const std::function<bool(bool, bool)>& combine) const {
  const auto count = static_cast<int64_t>(other.next_.size()) + 1;  // the last one: dead
  const auto after = [](const ByteAutomaton& automaton, int64_t state, unsigned char byte) {
    if (state >= std::ssize(automaton.next_)) return std::ssize(automaton.next_);
    const int32_t next = automaton.next_[static_cast<size_t>(state)][byte];
    return next == kDead ? std::ssize(automaton.next_) : static_cast<std::ptrdiff_t>(next);
  };
  const auto ends = [](const ByteAutomaton& automaton, int64_t state) {
    return state < std::ssize(automaton.next_) && automaton.may_end_[static_cast<size_t>(state)];
  };
  const bool needs_other = !combine(true, false);
  return of_steps(
      0,
      [&](int64_t state, unsigned char byte) -> int64_t {
        const int64_t first = after(*this, state / count, byte);
        const int64_t second = after(other, state % count, byte);
        if (first == std::ssize(next_) || !may_reach_end_[static_cast<size_t>(first)]) return kDead;
        if (needs_other &&
            (second == count - 1 || !other.may_reach_end_[static_cast<size_t>(second)])) {
          return kDead;
        }
        return first * count + second;
      },
      [&](int64_t state) {
        return combine(ends(*this, state / count), ends(other, state % count));
      });
}

ByteAutomaton ByteAutomaton::intersected(const ByteAutomaton& other) const {
  return combined(other, [](bool first, bool second) { return first && second; });
}

ByteAutomaton ByteAutomaton::without(const ByteAutomaton& other) const {
  return combined(other, [](bool first, bool second) { return first && !second; });
}

void ByteAutomaton::find_ends() {
  std::vector<std::vector<int32_t>> before(next_.size());
  for (size_t state = 0; state < next_.size(); ++state) {
    int32_t last = kDead;
    for (const int32_t next : next_[state]) {
      if (next == kDead || next == last) continue;
      before[static_cast<size_t>(next)].push_back(static_cast<int32_t>(state));
      last = next;
    }
  }
  may_reach_end_ = may_end_;
  std::vector<int32_t> open;
  for (size_t state = 0; state < may_end_.size(); ++state) {
    if (may_end_[state]) open.push_back(static_cast<int32_t>(state));
  }
  while (!open.empty()) {
    const auto state = static_cast<size_t>(open.back());
    open.pop_back();
    for (const int32_t earlier : before[state]) {
      if (may_reach_end_[static_cast<size_t>(earlier)]) continue;
      may_reach_end_[static_cast<size_t>(earlier)] = true;
      open.push_back(earlier);
    }
  }
}

bool ByteAutomaton::matches(std::string_view text) const {
  int32_t state = next_.empty() ? kDead : 0;
  for (const char byte : text) {
    if (state == kDead) return false;
    state = next_[static_cast<size_t>(state)][static_cast<unsigned char>(byte)];
  }
  return state != kDead && may_end_[static_cast<size_t>(state)];
}

Symbol ByteAutomaton::add_to(
    Grammar& grammar, const std::function<std::vector<Sequence>(const ByteSet&)>& write) const {
  if (is_empty()) return grammar.add_anonymous_rule({});
  std::vector<int32_t> rules(next_.size());
  for (size_t state = 0; state < next_.size(); ++state) {
    if (may_reach_end_[state]) rules[state] = grammar.add_rule();
  }
  for (size_t state = 0; state < next_.size(); ++state) {
    if (!may_reach_end_[state]) continue;
    if (may_end_[state]) grammar.add_alternative(rules[state], {});
    std::map<int32_t, ByteSet> sets;
    for (size_t byte = 0; byte < 256; ++byte) {
      const int32_t next = next_[state][byte];
      if (next != kDead && may_reach_end_[static_cast<size_t>(next)]) sets[next].set(byte);
    }
    for (const auto& [next, bytes] : sets) {
      for (Sequence& sequence : write(bytes)) {
        sequence.push_back({.rule = rules[static_cast<size_t>(next)]});
        grammar.add_alternative(rules[state], std::move(sequence));
      }
    }
  }
  return {.rule = rules[0]};
}

Symbol ByteAutomaton::add_to(Grammar& grammar) const {
  return add_to(grammar, [](const ByteSet& bytes) {
    return std::vector<Sequence>{{Symbol{.rule = Symbol::kBytes, .bytes = bytes}}};
  });
}

Symbol ByteAutomaton::add_as_json_to(Grammar& grammar) const {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  return add_to(grammar, [&](const ByteSet& bytes) {
    std::vector<Sequence> sequences;
    Symbol plain{.rule = Symbol::kBytes, .bytes = bytes};
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto letter = static_cast<char>(byte);
      if (byte >= 0x20 && letter != '"' && letter != '\\') continue;
      plain.bytes.reset(byte);
      if (!bytes.test(byte)) continue;
      const size_t found = kShort.find(letter);
      sequences.push_back(Grammar::literal(found == kShort.npos
                                               ? fmt::format("\\u{:04x}", byte)
                                               : fmt::format("\\{}", kLetters[found])));
    }
    if (plain.bytes.any()) sequences.push_back({plain});
    return sequences;
  });
}

}  // namespace colossal::text::grammar
