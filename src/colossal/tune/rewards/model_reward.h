// The reward "model:DIR" of an on-policy run: the score that a reward model gives to a prompt with
// its completion. DIR is a Hugging Face folder with a ...ForSequenceClassification model with one
// label, such as `colossal tune reward` writes. The model is frozen and has the run's parallel
// layout. Used by CompletionRewards.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/engine/frozen_model.h"
#include "colossal/text/chat_template.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/tune/methods/reference.h"
#include "colossal/tune/rewards/rewards.h"
#include "colossal/tune/samples/samples.h"

namespace colossal::tune {

class ModelReward {
 public:
  // Reads the folder's configuration, tokenizer and chat template. run: the training job. `run` and
  // `context` must outlive this object. Throws ConfigError if the folder's model is not a reward
  // model, does not fit the run's layout or sequence length, or has no weights.
  ModelReward(const std::string& folder, const Job& run, const ParallelContext& context);
  void load();  // Loads the weights. Call before score(). Collective.

  // Returns one score per text. All ranks pass the same texts and get all scores; each replica
  // computes a share. Collective.
  //
  // Prompt and completion are concatenated. If the prompt is a list of messages, the folder's chat
  // template renders the messages and the completion to one text. The folder's tokenizer is used,
  // which may differ from the run's. The score is NaN for a text that has more tokens than the
  // model has positions, or cannot be rendered or tokenized. A score of the model that is not
  // finite is returned unchanged. Both cases are logged.
  std::vector<double> score(const std::vector<ScoredText>& texts);
  // Returns how many texts so far could not be scored or got a score that is not finite. Equal on
  // all ranks.
  int64_t failures() const { return failures_; }
  // Whether the folder has a chat template, without which prompts of messages cannot be scored.
  bool reads_messages() const { return chat_template_.has_value(); }

 private:
  // Returns the tokens of a text. Throws an exception if the text has more tokens than the model
  // has positions, or cannot be rendered or tokenized.
  Row row_of(const ScoredText& text) const;
  std::vector<double> score_rows(const std::vector<Row>& rows);

  std::string folder_;
  const Job& run_;
  const ParallelContext& context_;
  Job job_;  // the run's job with the reward model in place of the trained model
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_template_;
  int32_t padding_ = 0;  // padding token of the reward model
  int64_t failures_ = 0;
  ScoreCollector collector_;
  std::optional<FrozenModel> model_;
};

}  // namespace colossal::tune
