// A run's tokenizer, corpora and the order in which samples are read.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "colossal/booster/job.h"
#include "colossal/data/batch.h"
#include "colossal/data/batch_loader.h"
#include "colossal/data/sampler.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/text/tokenizer.h"

namespace colossal {

// Throws ConfigError where the tokenizer has more tokens than the model's vocabulary.
void check_vocabulary(const Job& job, const text::Tokenizer& tokenizer);

class TrainingData {
 public:
  // Opens, and tokenizes where needed. Throws what check_vocabulary and Corpus::open throw.
  TrainingData(const Job& job, const ParallelContext& context);

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const data::TokenDataset& train() const { return *train_; }
  bool has_validation() const { return validation_.has_value(); }

  // This replica's micro-batches of the steps after `steps_done`.
  data::BatchLoader training_loader(int64_t steps_done) const;
  data::BatchLoader validation_loader() const;
  int64_t num_validation_steps() const;

  // The position of the run in its data, for a checkpoint, and its check on resuming: another
  // corpus, tokenizer, sequence length or order is told.
  nlohmann::json state() const;
  void check_resumed(const nlohmann::json& state) const;

 private:
  const Job& job_;
  data::BatchShape shape_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<data::TokenDataset> train_;
  std::optional<data::TokenDataset> validation_;
};

}  // namespace colossal
