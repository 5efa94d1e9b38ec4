// Constrained decoding: restricts an answer to the texts of a rule.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "colossal/serve/request.h"
#include "colossal/server/rule_cache.h"
#include "colossal/server/served_model.h"

namespace colossal::server {

// Applies a rule to one answer: keeps the place that the answer's text has reached in the rule.
// Special tokens are forbidden, but end tokens are allowed where the text may end. finished() is
// true once no further text may follow.
//
// The rule holds from the end of the model's reasoning on. Where an answer may begin with reasoning
// and the vocabulary has a token that begins it, the model may choose this token first.
class TextConstraint : public serve::LogitsConstraint {
 public:
  // rule: compiled (RuleCache). cache, model: must outlive the constraint. end_tokens: token ids
  // that end the answer. begin: where the answer begins; reasoning: whether it may have reasoning.
  TextConstraint(std::shared_ptr<CompiledRule> rule, RuleCache& cache, const ServedModel& model,
                 std::vector<int32_t> end_tokens, text::AnswerBegin begin, bool reasoning);

  // Sets the logits of tokens that may not come next to -infinity, in place. logits: [vocabulary],
  // fp64.
  void apply(at::Tensor& logits) override;
  // Advances the state by the token that was generated, which must not be an end token.
  void accept(int32_t token) override;
  bool finished() const override { return finished_; }
  // Returns whether the mask of the next token is made. Other threads make it.
  bool ready() const override;
  std::shared_ptr<serve::LogitsConstraint> clone() const override {
    return std::make_shared<TextConstraint>(*this);
  }

 private:
  enum class Phase {
    begin,      // the text or reasoning may begin
    reasoning,  // until its end marker
    text
  };

  // Has another thread make the mask of the place.
  void prepare() { mask_ = cache_->make_mask(rule_, place_); }

  std::shared_ptr<CompiledRule> rule_;
  RuleCache* cache_;
  const ServedModel& model_;
  std::vector<int32_t> end_tokens_;
  Phase phase_ = Phase::text;
  std::string reasoning_;  // the last bytes of the reasoning
  CompiledRule::Place place_;
  std::shared_ptr<const PendingMask> mask_;  // of the place
  bool finished_ = false;
};

}  // namespace colossal::server
