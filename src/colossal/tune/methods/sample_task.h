// Base class of the tasks of all tuning methods. Reads the samples of data.train and
// data.validation, and makes batches of them in the run's order, which is a new permutation of the
// samples in each epoch. A position in this order is counted from 0 through all epochs. A derived
// class adds the batches' fields and the loss of its method.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/data/sampler.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/training/training_task.h"
#include "colossal/tune/samples/collate.h"
#include "colossal/tune/samples/samples.h"
#include "colossal/tune/tuning_method.h"

namespace colossal::tune {

// Returns the options for read_samples() that a run's configuration demands, for data.train and
// SampleKind::language_modeling. For data.validation or another kind, change `setting` or `kind` of
// the result. Throws IoError if the chat template cannot be read, and ConfigError if it is invalid.
SampleOptions sample_options(const Tuning& tuning, const RunConfig& run);

// Opens a run's tokenizer, with the end-of-text token that data.eos_token names. specification: see
// text::make_tokenizer(). Throws ConfigError if the tokenizer has no such token.
std::unique_ptr<text::Tokenizer> make_tokenizer(const Tuning& tuning,
                                                const std::string& specification);

// TrainingTask documents the overridden functions.
class SampleTask : public TrainingTask {
 public:
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  // Returns what the run teaches about the form of texts.
  const text::TaughtText& taught() const { return taught_; }
  std::optional<Texts> texts() const override { return Texts{*tokenizer_, taught_}; }
  SavedModel saved_model() const override {
    return describe_saved_model(job_, *tokenizer_, taught_);
  }
  // A prompt of a run whose samples are conversations becomes the first message of one.
  std::vector<int32_t> prompt_tokens(const std::string& prompt) const override;
  bool has_validation() const override { return validation_.has_value(); }
  data::BatchLoader training_loader(int64_t steps_done) const override;
  data::BatchLoader validation_loader() const override;
  int64_t num_validation_steps() const override;
  nlohmann::json state() const override;
  void check_resumed(const nlohmann::json& state) const override;
  // Returns a stand-in for the method's loss, for the pass that records in which order weights are
  // used: the sum of the labels' log-probabilities, plus the sum of the value head's outputs if the
  // model has a value head. The stand-in needs the labels, but none of the fields that derived
  // classes add to batches. It uses the head's weights in the same order as the losses of most
  // tuning methods, which compute log-probabilities.
  HeadLoss loss_to_record() const override;

 protected:
  // Reads and tokenizes the files of data.train and data.validation as samples of this kind.
  // reading: called for each line that is not blank, so that a stop can end a long read; must not
  // be null. If it throws, the constructor rethrows. `job` and `context` must outlive this object.
  // Throws ConfigError, on all ranks, if the tokenizer or the samples differ between ranks; also
  // what read_samples() throws. Collective.
  SampleTask(const Job& job, const ParallelContext& context, const Tuning& tuning, SampleKind kind,
             const std::function<void()>& reading);

  // A sample of a micro-batch.
  struct Drawn {
    const Sample* sample;
    // The sample before it in the global batch; for the first sample, the last sample.
    const Sample* previous;
    // Position of the sample in the run's order; for validation, index of the sample.
    int64_t id;
  };
  using MicroBatch = std::vector<Drawn>;
  // Returns one batch for each micro-batch. drawn: this replica's micro-batches of a step. Called
  // from loader threads, so it must be thread-safe.
  virtual std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const = 0;

  const std::vector<Sample>& samples() const { return train_.samples; }
  // Returns the training sample at a position in the run's order.
  const Sample& sample_at(int64_t position) const;
  // How a global batch is divided into micro-batches of this replica.
  const data::BatchShape& shape() const { return shape_; }

  // Returns this replica's batches of a training step. step: number of the step, from 0.
  std::vector<data::Batch> read_training_step(int64_t step) const;
  // Returns a loader for the training steps from step `steps_done` on. It calls `read` for the
  // batches of each step.
  data::BatchLoader loader_of(std::function<std::vector<data::Batch>(int64_t step)> read,
                              int64_t steps_done) const;

  // Returns the rows of samples that have one row each, and Batch::sample_ids, one per row.
  static std::pair<std::vector<const Row*>, std::vector<int64_t>> rows_of(
      const MicroBatch& micro_batch);
  // Implements make_batches() for samples that have one row each.
  std::vector<data::Batch> collate_samples(const std::vector<MicroBatch>& drawn) const;
  // Calls collate(). Rows are padded with the end-of-text token, and to at least sp inputs, one for
  // each rank of sp. ids: Batch::sample_ids, one per row.
  data::Batch collate_rows(const std::vector<const Row*>& rows, std::vector<int64_t> ids) const;

  const Job& job() const { return job_; }
  const ParallelContext& context() const { return context_; }
  const TuneConfig& config() const { return tuning_.config; }
  // Returns the sum of `sum` over all ranks, divided by the sum of `count` over all ranks; 0 if the
  // latter is 0. Collective.
  double mean_over_ranks(double sum, double count) const;

 private:
  // Reads the samples of files, and packs them if TuneConfig::packing is set. setting: key that
  // names the files.
  Samples read(const std::vector<std::string>& files, const char* setting, SampleKind kind,
               const std::function<void()>& reading) const;
  std::vector<data::Batch> read_validation_step(int64_t step) const;

  const Job& job_;
  const ParallelContext& context_;
  Tuning tuning_;
  data::BatchShape shape_;
  // Digests of the folders of other models that the run reads (reference, teacher, reward models).
  // Key: the setting that names the folder.
  std::map<std::string, std::string> models_beside_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  Samples train_;
  text::TaughtText taught_;
  std::optional<Samples> validation_;
  std::optional<data::SampleOrder> order_;
};

}  // namespace colossal::tune
