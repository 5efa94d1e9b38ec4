// A reward model as a reward: a folder of a ...ForSequenceClassification with one label, such as
// `colossal tune reward` writes. It is frozen, at the layout of the run, and scores prompts with
// completions.
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
  // Reads what the folder says of the model; load() reads the weights. run: the job that is
  // trained; it and the context must outlive this. Throws ConfigError for a model that scores no
  // texts, or for what job_of_folder() refuses.
  ModelReward(const std::string& folder, const Job& run, const ParallelContext& context);
  void load();  // collective

  // Scores texts, the same on all ranks; all get all scores, NaN for a text that the model cannot
  // read. A prompt and a completion are one text; messages become one by the chat template of the
  // folder. The tokenizer is the folder's too: it may differ from the run's. Each replica runs its
  // share. Collective.
  std::vector<double> score(const std::vector<ScoredText>& texts);
  int64_t failures() const { return failures_; }  // calls that could not read all of their texts
  // Whether prompts may be messages.
  bool reads_messages() const { return chat_template_.has_value(); }

 private:
  // Throws Error if the text is too long for the model, or its tokenizer cannot read it.
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
