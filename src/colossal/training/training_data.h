// The data of a run that predicts the next token of texts: its tokenizer, its corpora, and the
// order in which samples are read. Other tasks use the free functions, too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "colossal/data/batch_loader.h"
#include "colossal/data/masking.h"
#include "colossal/data/mixture.h"
#include "colossal/data/sampler.h"
#include "colossal/data/token_dataset.h"
#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/training/training_task.h"

namespace colossal {

// Throws ConfigError if the tokenizer has more tokens than the model's vocabulary.
void check_vocabulary(const Job& job, const text::Tokenizer& tokenizer);
// Opens job.tokenizer, calls check_vocabulary(), and logs a description of the tokenizer. Throws
// what text::make_tokenizer() throws.
std::unique_ptr<text::Tokenizer> open_tokenizer(const Job& job);
// The same, for a tokenizer that is open already.
std::unique_ptr<text::Tokenizer> open_tokenizer(const Job& job,
                                                std::unique_ptr<text::Tokenizer> tokenizer);

// Returns how the samples of a step are divided into micro-batches, for this rank's replica.
data::BatchShape batch_shape(const Job& job, const ParallelContext& context);

// Returns the tokens that data.bos puts before each document of a corpus. With nullopt ("auto")
// they are those that the tokenizer's post-processor adds before a text, so that a document has the
// tokens that `transformers` gives it, apart from the end of text between documents. A sequence
// that begins within a document has none. Throws ConfigError if `bos` is true and the tokenizer has
// no such token.
std::vector<int32_t> beginning_of_documents(const text::Tokenizer& tokenizer,
                                            const std::optional<bool>& bos);

// Converts the keys of [data] for reading text files (format, text_field, cache, invalid) to
// options for open_corpus(). The other options have their defaults.
data::CorpusOptions corpus_options(const DataConfig& config);
// Calls data::Corpus::open() with these arguments, and logs how much was read and how much was
// skipped. files: paths or patterns.
data::Corpus open_corpus(const std::vector<std::string>& files, const text::Tokenizer& tokenizer,
                         const data::CorpusOptions& options);

// Compares the training corpus in two results of TrainingData::state(). saved: the result in a
// checkpoint; here: the result of this run. Returns a sentence that describes the difference.
// Returns "" if they are equal, or if `saved` lacks the fields to compare.
std::string describe_changed_corpus(const nlohmann::json& saved, const nlohmann::json& here);

// Throws ConfigError if the state of a task in a checkpoint, `saved`, is of another tokenizer: the
// model's weights are for the tokens of that one. name: of this run's tokenizer, for the message.
void refuse_other_tokenizer(const nlohmann::json& saved, const text::Tokenizer& tokenizer,
                            const std::string& name);

// The task of predicting the next token of a text, for encoders its masked tokens and, for
// encoder-decoders, a text of which spans are missing. TrainingTask documents the overridden
// functions.
class TrainingData final : public TrainingTask {
 public:
  // Opens the corpora data.train and data.validation, and tokenizes them if needed. While it
  // tokenizes, it repeatedly calls `tokenizing`, which must not be empty, on the calling thread.
  // Throws ConfigError on all ranks if a rank's tokenizer or corpora differ from those of rank 0.
  // Also throws what `tokenizing`, open_tokenizer() and data::Corpus::open() throw. Collective over
  // all ranks. `job` and `context` must outlive this.
  TrainingData(const Job& job, const ParallelContext& context,
               const std::function<void()>& tokenizing);

  SavedModel saved_model() const override { return describe_saved_model(job_, *tokenizer_); }
  std::optional<Texts> texts() const override { return Texts{.tokenizer = *tokenizer_}; }
  std::vector<int32_t> prompt_tokens(const std::string& prompt) const override {
    return tokenizer_->encode_prompt(prompt);
  }
  bool has_validation() const override { return validation_.has_value(); }

  data::BatchLoader training_loader(int64_t steps_done) const override;
  data::BatchLoader validation_loader() const override;
  int64_t num_validation_steps() const override;
  HeadLoss loss() const override;

  // Returns fingerprints of the corpora and the tokenizer.
  nlohmann::json state() const override;
  void check_resumed(const nlohmann::json& state) const override;

 private:
  // Returns the function that masks tokens or spans; null if the model is a decoder.
  data::ChangeBatch masking() const;

  const Job& job_;
  const ParallelContext& context_;
  data::BatchShape shape_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::optional<data::MaskOptions> masks_;  // nullopt: the model is a decoder
  std::vector<int32_t> sentinels_;          // DenoisingOptions::sentinels (data/denoising.h)
  std::optional<data::Mixture> train_;
  std::optional<data::TokenDataset> validation_;
};

}  // namespace colossal
