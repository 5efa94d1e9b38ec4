// Constrained decoding: restricts answers to the texts of a grammar. The grammar becomes an
// automaton, and each state of the automaton has a mask of forbidden tokens.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "colossal/serve/request.h"
#include "colossal/server/json_body.h"
#include "colossal/server/served_model.h"
#include "colossal/text/grammar/automaton.h"

namespace colossal::server {

// The constraint that a request sets on its answer.
struct TextRule {
  enum class Kind { json_object, json_schema, regular_expression, choice, grammar };
  Kind kind;
  // the JSON schema, the regular expression, the array of texts, or the grammar in GBNF
  Json value;
};

// (bytes, token) pairs sorted by bytes, without special tokens.
using SortedTokens = std::vector<std::pair<std::string, int32_t>>;

// A rule compiled for a vocabulary. Computes states and masks when they are first needed, on the
// engine's thread. Not thread-safe.
class CompiledRule {
 public:
  CompiledRule(const TextRule& rule, std::shared_ptr<const SortedTokens> tokens,
               int64_t vocabulary);

  text::grammar::Automaton& automaton() { return automaton_; }
  // Returns a mask [vocabulary], bool: true for tokens that are forbidden in this state, and for
  // all special tokens. The caller must decide about end tokens itself. The reference is valid
  // until the next call.
  const at::Tensor& forbidden(text::grammar::Automaton::State state);

 private:
  at::Tensor make_mask(text::grammar::Automaton::State state);

  text::grammar::Automaton automaton_;
  std::shared_ptr<const SortedTokens> tokens_;
  int64_t vocabulary_;
  std::map<text::grammar::Automaton::State, at::Tensor> masks_;
};

// Where one answer stands in its rule's automaton.
class TextConstraint : public serve::LogitsConstraint {
 public:
  TextConstraint(std::shared_ptr<CompiledRule> rule, const ServedModel& model,
                 std::vector<int32_t> end_tokens);

  void apply(at::Tensor& logits) override;
  void accept(int32_t token) override;
  bool finished() const override { return finished_; }
  std::shared_ptr<serve::LogitsConstraint> clone() const override {
    return std::make_shared<TextConstraint>(*this);
  }

 private:
  std::shared_ptr<CompiledRule> rule_;
  const ServedModel& model_;
  std::vector<int32_t> end_tokens_;
  text::grammar::Automaton::State state_;
  bool finished_ = false;
};

// LRU cache of the compiled rules of one model.
class RuleCache {
 public:
  // Returns the compiled rule, from the cache or new. Throws ApiError 400, which names the field,
  // if the schema, expression or grammar is invalid or uses unsupported features.
  std::shared_ptr<CompiledRule> compile(const TextRule& rule, const ServedModel& model,
                                        const char* field);

 private:
  std::shared_ptr<const SortedTokens> tokens_;
  std::list<std::pair<std::string, std::shared_ptr<CompiledRule>>>
      recent_;  // most recently used first
};

}  // namespace colossal::server
