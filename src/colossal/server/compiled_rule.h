// Rules for answers, compiled to automata. For each state of the automaton, a mask says which
// tokens may follow.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "colossal/server/json_body.h"
#include "colossal/text/grammar/automaton.h"

namespace colossal::server {

// The rule that a request sets for its answer.
struct TextRule {
  // json_object: any JSON object. choice: one of several texts. grammar: a grammar in GBNF.
  enum class Kind { json_object, json_schema, regular_expression, choice, grammar };
  Kind kind;
  // The JSON schema, the regular expression, the array of texts, or the grammar; null for
  // json_object.
  Json value;
};

// (bytes, token id) pairs of a vocabulary, sorted by bytes, without special tokens.
using SortedTokens = std::vector<std::pair<std::string, int32_t>>;

// Which tokens may come next. Special tokens, and tokens without bytes, never may.
class TokenMask {
 public:
  explicit TokenMask(int64_t vocabulary)
      : words_(static_cast<size_t>((vocabulary + kBits - 1) / kBits)) {}
  void allow(int32_t token) { words_[word(token)] |= bit(token); }
  bool allows(int32_t token) const { return (words_[word(token)] & bit(token)) != 0; }
  size_t bytes() const { return words_.size() * sizeof(uint64_t); }

 private:
  static constexpr int64_t kBits = 64;
  static size_t word(int32_t token) { return static_cast<size_t>(token / kBits); }
  static uint64_t bit(int32_t token) { return uint64_t{1} << (token % kBits); }

  std::vector<uint64_t> words_;
};

// How many bytes all compiled rules of a server take together. Thread-safe.
class RuleBytes {
 public:
  static constexpr int64_t kMost = int64_t{256} << 20;
  void add(int64_t bytes) { bytes_ += bytes; }
  bool are_too_many() const { return bytes_ > kMost; }

 private:
  std::atomic<int64_t> bytes_ = 0;
};

// A rule compiled for a vocabulary. Computes states and masks when they are first needed, and keeps
// them as long as there is room. Thread-safe.
class CompiledRule {
 public:
  // What the text of an answer has reached in the rule. Valid as long as the rule lives.
  struct Place {
    std::shared_ptr<text::grammar::Automaton> automaton;
    text::grammar::Automaton::State state = text::grammar::Automaton::kDead;
    bool is_dead() const { return state == text::grammar::Automaton::kDead; }
  };

  // tokens: of the vocabulary. vocabulary: number of logits. bytes: counts the bytes of this rule,
  // too. Compiles the rule and makes the masks that an answer needs first. Throws
  // text::grammar::GrammarError if the rule is invalid or unsupported, or takes too long to follow.
  CompiledRule(const TextRule& rule, std::shared_ptr<const SortedTokens> tokens, int64_t vocabulary,
               std::shared_ptr<RuleBytes> bytes);
  ~CompiledRule();

  Place start();
  // Returns the place after these bytes.
  Place next(const Place& place, std::string_view bytes);
  // Return whether the text may end at a place, and whether nothing can follow.
  bool may_end(const Place& place) const;
  bool must_end(const Place& place) const;
  // Returns the tokens that may follow at a place. Computes them if need be, which takes a
  // millisecond to a second.
  std::shared_ptr<const TokenMask> mask(const Place& place);
  // Returns the mask if it is known; otherwise null.
  std::shared_ptr<const TokenMask> find_mask(const Place& place) const;

 private:
  using State = text::grammar::Automaton::State;

  // Call with the mutex locked. Returns the state of a place in the current automaton.
  State here(const Place& place);
  // Drops all states and masks.
  void renew();
  void count_bytes();
  TokenMask make_mask(const Place& place);

  std::shared_ptr<const SortedTokens> tokens_;
  int64_t vocabulary_;
  std::shared_ptr<RuleBytes> bytes_;
  int64_t counted_bytes_ = 0;

  mutable std::mutex mutex_;  // protects the members below
  std::shared_ptr<text::grammar::Automaton> automaton_;
  std::map<State, std::shared_ptr<const TokenMask>> masks_;  // of the current automaton
};

}  // namespace colossal::server
