// Base class of all tuning methods: reads samples from files and makes batches of them in the run's
// order, which is a new permutation of the samples in each epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/booster/training_task.h"
#include "colossal/data/sampler.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/tune/collate.h"
#include "colossal/tune/samples.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

// The tuning method and its settings; equal on all ranks.
struct Tuning {
  Method method = Method::sft;
  TuneConfig config;
};

// Returns the options to read data.train as language-modeling samples; for other files and kinds,
// change the fields that differ. Throws IoError if the chat template cannot be read, and
// ConfigError if it is invalid.
SampleOptions sample_options(const Tuning& tuning, const RunConfig& run);

class SampleTask : public TrainingTask {
 public:
  const text::Tokenizer& tokenizer() const override { return *tokenizer_; }
  bool has_validation() const override { return validation_.has_value(); }
  data::BatchLoader training_loader(int64_t steps_done) const override;
  data::BatchLoader validation_loader() const override;
  int64_t num_validation_steps() const override;
  nlohmann::json state() const override;
  void check_resumed(const nlohmann::json& state) const override;
  // Returns a loss that uses the head's weights in the order in which losses of log-probabilities
  // use them: the sum of log-probabilities, whose backward pass uses the head's table again, and of
  // values if the model has a value head.
  HeadLoss loss_to_record() const override;

 protected:
  // Reads the files of data.train and data.validation, calling `reading` regularly. `job` and
  // `context` must outlive this. Collective: throws ConfigError on all ranks if the tokenizer or
  // the samples differ between ranks.
  SampleTask(const Job& job, const ParallelContext& context, const Tuning& tuning, SampleKind kind,
             const std::function<void()>& reading);

  // A sample of a micro-batch.
  struct Drawn {
    const Sample* sample;
    const Sample* previous;  // the one before it in the step's order; before the first: the last
    int64_t id;              // position in the run's order, or index of the validation sample
  };
  using MicroBatch = std::vector<Drawn>;
  // Makes a batch of each micro-batch; `drawn` has this replica's micro-batches of a step. Called
  // from loader threads, so it must be thread-safe.
  virtual std::vector<data::Batch> make_batches(const std::vector<MicroBatch>& drawn) const = 0;

  const std::vector<Sample>& samples() const { return train_.samples; }
  // Returns the training sample at a position in the run's order, counted from 0 through all
  // epochs.
  const Sample& sample_at(int64_t position) const;
  const data::BatchShape& shape() const { return shape_; }

  // Returns this replica's batches of a step (from 0).
  std::vector<data::Batch> read_training_step(int64_t step) const;
  // Returns a loader that calls `read` for each step, starting at step `steps_done`.
  data::BatchLoader loader_of(std::function<std::vector<data::Batch>(int64_t step)> read,
                              int64_t steps_done) const;

  // collate_samples(): make_batches() for samples that have one row each. collate_rows(): collate()
  // with the end-of-text token as padding and a length of at least one token per rank of sp; ids:
  // one per row.
  std::vector<data::Batch> collate_samples(const std::vector<MicroBatch>& drawn) const;
  data::Batch collate_rows(const std::vector<const Row*>& rows, std::vector<int64_t> ids) const;

  const Job& job() const { return job_; }
  const ParallelContext& context() const { return context_; }
  const TuneConfig& config() const { return tuning_.config; }
  // Returns the sum of all ranks' sums, divided by the sum of their counts; 0 if that is 0.
  // Collective.
  double mean_over_ranks(double sum, double count) const;

 private:
  Samples read(const std::vector<std::string>& files, const char* setting, SampleKind kind,
               const std::function<void()>& reading) const;
  std::vector<data::Batch> read_validation_step(int64_t step) const;

  const Job& job_;
  const ParallelContext& context_;
  Tuning tuning_;
  data::BatchShape shape_;
  // Digests of the folders of other models that the run reads, by the setting that names the
  // folder.
  std::map<std::string, std::string> models_beside_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  Samples train_;
  std::optional<Samples> validation_;
  std::optional<data::SampleOrder> order_;
};

}  // namespace colossal::tune
