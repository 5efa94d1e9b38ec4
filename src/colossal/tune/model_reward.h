// The reward "model:DIR" of a run: the score of a reward model, read from a Hugging Face folder of
// a ...ForSequenceClassification with one label, such as `colossal tune reward` writes. The model
// is frozen, has the run's layout, and scores each prompt together with its completion.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "colossal/booster/frozen_model.h"
#include "colossal/text/chat_template.h"
#include "colossal/text/tokenizer.h"
#include "colossal/tune/reference.h"
#include "colossal/tune/rewards.h"
#include "colossal/tune/samples.h"

namespace colossal::tune {

class ModelReward {
 public:
  // Reads the folder's configuration, tokenizer and chat template; load() reads the weights. run:
  // the training job. `run` and `context` must outlive this object. Throws ConfigError if the
  // folder's model is not a reward model, and whatever job_of_folder() throws.
  ModelReward(const std::string& folder, const Job& run, const ParallelContext& context);
  void load();  // loads the weights. Collective.

  // Returns one score per text. All ranks pass the same texts and get all scores. A text that is
  // too long or cannot be tokenized has the score NaN; a score of the model that is not finite is
  // returned as it is. Both are logged. Prompt and completion are joined to one text; a prompt of
  // messages is rendered, with the completion, by the folder's chat template. Uses the folder's
  // tokenizer, which may differ from the run's. Each replica scores its share. Call load() first.
  // Collective.
  std::vector<double> score(const std::vector<ScoredText>& texts);
  // Number of score() calls so far with unscorable texts, plus those with scores that are not
  // finite.
  int64_t failures() const { return failures_; }
  // Whether the folder has a chat template, without which prompts of messages cannot be scored.
  bool reads_messages() const { return chat_template_.has_value(); }

 private:
  // Throws Error if the text is longer than the model's positions or cannot be tokenized.
  Row row_of(const ScoredText& text) const;
  std::vector<double> score_rows(const std::vector<Row>& rows);

  std::string folder_;
  const Job& run_;
  const ParallelContext& context_;
  Job job_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<text::ChatTemplate> chat_template_;
  int32_t padding_ = 0;
  int64_t failures_ = 0;
  ScoreCollector collector_;
  std::optional<FrozenModel> model_;
};

}  // namespace colossal::tune
