// A run's tokenizer, corpora and the order in which samples are read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "colossal/booster/job.h"
#include "colossal/booster/training_task.h"
#include "colossal/data/batch.h"
#include "colossal/data/batch_loader.h"
#include "colossal/data/mixture.h"
#include "colossal/data/sampler.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/text/tokenizer.h"

namespace colossal {

// Throws ConfigError where the tokenizer has more tokens than the model's vocabulary.
void check_vocabulary(const Job& job, const text::Tokenizer& tokenizer);
// The job's tokenizer, checked; the log says what it is.
std::unique_ptr<text::Tokenizer> open_tokenizer(const Job& job);

// How the job's steps are divided, as this rank's replica sees it.
data::BatchShape batch_shape(const Job& job, const ParallelContext& context);

// How the keys of [data] say that files become text.
data::CorpusOptions corpus_options(const DataConfig& config);
// Calls Corpus::open(), and logs what it found and skipped.
data::Corpus open_corpus(const std::vector<std::string>& files, const text::Tokenizer& tokenizer,
                         const data::CorpusOptions& options);

// Compares two results of TrainingData::state() and says, for people, how the texts that the runs
// train on differ; empty if they do not, as far as the older state tells.
std::string describe_changed_corpus(const nlohmann::json& saved, const nlohmann::json& here);

// Learns to predict the next token of a text.
class TrainingData final : public TrainingTask {
 public:
  // Opens, and tokenizes where needed; calls `tokenizing` meanwhile. Collective: throws ConfigError
  // on all ranks where one has found other contents than rank 0; throws what `tokenizing`,
  // check_vocabulary and Corpus::open throw.
  TrainingData(const Job& job, const ParallelContext& context,
               const std::function<void()>& tokenizing);

  const text::Tokenizer& tokenizer() const override { return *tokenizer_; }
  bool has_validation() const override { return validation_.has_value(); }

  data::BatchLoader training_loader(int64_t steps_done) const override;
  data::BatchLoader validation_loader() const override;
  int64_t num_validation_steps() const override;

  // The corpus (by its contents), tokenizer, sequence length and order.
  nlohmann::json state() const override;
  void check_resumed(const nlohmann::json& state) const override;

 private:
  const Job& job_;
  const ParallelContext& context_;
  data::BatchShape shape_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<data::Mixture> train_;
  std::optional<data::TokenDataset> validation_;
};

}  // namespace colossal
