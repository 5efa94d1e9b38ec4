// Restricts answers to the texts of a grammar: for each of its states the allowed tokens are known.
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

// What a request asks its answer to be.
struct TextRule {
  enum class Kind { json_object, json_schema, regular_expression, choice, grammar };
  Kind kind;
  Json value;  // the schema, the expression, the list of texts, or the grammar in GBNF
};

// Tokens with their bytes, sorted by these, without special tokens.
using SortedTokens = std::vector<std::pair<std::string, int32_t>>;

// A rule made ready for a vocabulary. Its states and masks are made when they are needed, on the
// engine's thread.
class CompiledRule {
 public:
  CompiledRule(const TextRule& rule, std::shared_ptr<const SortedTokens> tokens,
               int64_t vocabulary);

  text::grammar::Automaton& automaton() { return automaton_; }
  // [vocabulary] bool: the tokens that may not come in this state; end tokens are not looked at.
  const at::Tensor& forbidden(text::grammar::Automaton::State state);

 private:
  at::Tensor make_mask(text::grammar::Automaton::State state);

  text::grammar::Automaton automaton_;
  std::shared_ptr<const SortedTokens> tokens_;
  int64_t vocabulary_;
  std::map<text::grammar::Automaton::State, at::Tensor> masks_;
};

// Where one answer stands in a rule.
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

// Keeps rules that were compiled lately.
class RuleCache {
 public:
  // Throws ApiError, naming the field, for an invalid schema or expression, and for parts of it
  // that are not supported.
  std::shared_ptr<CompiledRule> compile(const TextRule& rule, const ServedModel& model,
                                        const char* field);

 private:
  std::shared_ptr<const SortedTokens> tokens_;
  std::list<std::pair<std::string, std::shared_ptr<CompiledRule>>> recent_;  // newest first
};

}  // namespace colossal::server
