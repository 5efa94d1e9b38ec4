// Constrained decoding: restricts answers to the texts of a grammar. A request's rule is compiled
// to an automaton. For each state of the automaton, a mask says which tokens may not follow.
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

// A rule compiled for a vocabulary. Computes states and masks when they are first needed, on the
// engine's thread. Not thread-safe.
class CompiledRule {
 public:
  // tokens: of the vocabulary. vocabulary: number of logits. Throws text::grammar::GrammarError if
  // the rule is invalid or unsupported.
  CompiledRule(const TextRule& rule, std::shared_ptr<const SortedTokens> tokens,
               int64_t vocabulary);

  text::grammar::Automaton& automaton() { return automaton_; }
  // Returns a mask [vocabulary], bool: true for tokens that are forbidden in this state, and always
  // true for special tokens and for tokens without bytes. The caller decides about end tokens. The
  // reference is valid until the next call. Throws text::grammar::GrammarError if the automaton
  // needs too many states or too much work.
  const at::Tensor& forbidden(text::grammar::Automaton::State state);

 private:
  // Computes the mask of a state.
  at::Tensor make_mask(text::grammar::Automaton::State state);

  text::grammar::Automaton automaton_;
  std::shared_ptr<const SortedTokens> tokens_;
  int64_t vocabulary_;
  std::map<text::grammar::Automaton::State, at::Tensor> masks_;  // computed masks
};

// Applies a rule to one answer: keeps the state that the answer's text has reached in the
// automaton. Special tokens are forbidden, but end tokens are allowed where the text may end.
// finished() is true once no further text may follow, or if accept() finds that the automaton needs
// too many states.
class TextConstraint : public serve::LogitsConstraint {
 public:
  // model: must outlive the constraint. end_tokens: token ids that end the answer.
  TextConstraint(std::shared_ptr<CompiledRule> rule, const ServedModel& model,
                 std::vector<int32_t> end_tokens);

  // Sets the logits of tokens that may not come next to -infinity, in place. logits: [vocabulary],
  // fp64. Throws as CompiledRule::forbidden() does.
  void apply(at::Tensor& logits) override;
  // Advances the state by the token that was generated, which must not be an end token.
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

// LRU cache of the compiled rules of one model. Not thread-safe.
class RuleCache {
 public:
  // Returns the compiled rule, from the cache or new. model: the same in all calls. field: name of
  // the request field with the rule, for error messages. Throws ApiError 400 if the schema,
  // expression or grammar is invalid or uses unsupported features.
  std::shared_ptr<CompiledRule> compile(const TextRule& rule, const ServedModel& model,
                                        const char* field);

 private:
  std::shared_ptr<const SortedTokens> tokens_;  // of the model; null before the first call
  // Rules by their text, most recently used first.
  std::list<std::pair<std::string, std::shared_ptr<CompiledRule>>> recent_;
};

}  // namespace colossal::server
