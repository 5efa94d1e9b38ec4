// Constrained decoding: restricts answers to the texts of a grammar, with a token mask per state of
// its automaton.
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

// A rule compiled for a vocabulary. Creates states and masks lazily, on the engine's thread.
class CompiledRule {
 public:
  CompiledRule(const TextRule& rule, std::shared_ptr<const SortedTokens> tokens,
               int64_t vocabulary);

  text::grammar::Automaton& automaton() { return automaton_; }
  // Returns a mask [vocabulary], bool: true for tokens that are forbidden in this state. Entries of
  // end tokens are meaningless.
  const at::Tensor& forbidden(text::grammar::Automaton::State state);

 private:
  at::Tensor make_mask(text::grammar::Automaton::State state);

  text::grammar::Automaton automaton_;
  std::shared_ptr<const SortedTokens> tokens_;
  int64_t vocabulary_;
  std::map<text::grammar::Automaton::State, at::Tensor> masks_;
};

// The state of one answer in a rule.
class TextConstraint : public serve::LogitsConstraint {
 public:
  TextConstraint(std::shared_ptr<CompiledRule> rule, const ServedModel& model,
                 std::vector<int32_t> end_tokens);

  void apply(at::Tensor& logits) override;
  void accept(int32_t token) override;
  bool finished() const override { return over_; }
  std::shared_ptr<serve::LogitsConstraint> clone() const override {
    return std::make_shared<TextConstraint>(*this);
  }

 private:
  std::shared_ptr<CompiledRule> rule_;
  const ServedModel& model_;
  std::vector<int32_t> end_tokens_;
  text::grammar::Automaton::State state_;
  bool over_ = false;
};

// LRU cache of compiled rules.
class RuleCache {
 public:
  // Throws ApiError 400, naming the field, if the schema, expression or grammar is invalid or uses
  // unsupported features.
  std::shared_ptr<CompiledRule> compile(const TextRule& rule, const ServedModel& model,
                                        const char* field);

 private:
  std::shared_ptr<const SortedTokens> tokens_;
  std::list<std::pair<std::string, std::shared_ptr<CompiledRule>>> recent_;  // newest first
};

}  // namespace colossal::server
