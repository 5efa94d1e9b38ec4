// A run's tokenizer, its corpora, and the order in which samples are read.
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

// Throws ConfigError if the tokenizer has more tokens than the model's vocabulary.
void check_vocabulary(const Job& job, const text::Tokenizer& tokenizer);
// Opens and checks the job's tokenizer, and logs a description of it.
std::unique_ptr<text::Tokenizer> open_tokenizer(const Job& job);

// Returns how the samples of a step are divided into micro-batches, for this rank's replica.
data::BatchShape batch_shape(const Job& job, const ParallelContext& context);

// Returns the options of [data] for reading files as text.
data::CorpusOptions corpus_options(const DataConfig& config);
// Calls Corpus::open(), and logs what was read and skipped.
data::Corpus open_corpus(const std::vector<std::string>& files, const text::Tokenizer& tokenizer,
                         const data::CorpusOptions& options);

// Compares two results of TrainingData::state() and describes, for people, how the training texts
// of the runs differ. Returns "" if they do not differ as far as the older state shows.
std::string describe_changed_corpus(const nlohmann::json& saved, const nlohmann::json& here);

// The task of predicting the next token of a text.
class TrainingData final : public TrainingTask {
 public:
  // Opens the corpora and tokenizes them if needed; meanwhile calls `tokenizing` repeatedly.
  // Collective: throws ConfigError on all ranks if a rank's corpora differ from those of rank 0.
  // Also throws what `tokenizing`, check_vocabulary and Corpus::open throw.
  TrainingData(const Job& job, const ParallelContext& context,
               const std::function<void()>& tokenizing);

  const text::Tokenizer& tokenizer() const override { return *tokenizer_; }
  bool has_validation() const override { return validation_.has_value(); }

  data::BatchLoader training_loader(int64_t steps_done) const override;
  data::BatchLoader validation_loader() const override;
  int64_t num_validation_steps() const override;

  // Has fingerprints of the corpora and the tokenizer, the sequence length, and what determines the
  // order of samples.
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
