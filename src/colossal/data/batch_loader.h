// Reads the batches of training and evaluation steps in a background thread, one step ahead.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/data/mixture.h"
#include "colossal/data/sampler.h"
#include "colossal/data/token_dataset.h"

namespace colossal::data {

// Return the micro-batches of step `step` (from 0), of training or of an evaluation, for the
// replica shape.replica. In an evaluation, micro-batches may be empty (evaluation_micro_batches(),
// sampler.h).
std::vector<Batch> read_training_step(const Mixture& mixture, const BatchShape& shape,
                                      int64_t step);
std::vector<Batch> read_evaluation_step(const TokenDataset& dataset, const BatchShape& shape,
                                        int64_t step);

// Reads the micro-batches of the next step on another thread while the caller runs the current
// step. Not thread-safe.
class BatchLoader {
 public:
  // A function that returns this replica's micro-batches of a step.
  using ReadStep = std::function<std::vector<Batch>(int64_t step)>;

  // Starts to read the steps [first_step, end_step), in order. read_step is called on other
  // threads, one call at a time.
  BatchLoader(ReadStep read_step, int64_t first_step, int64_t end_step);
  ~BatchLoader() = default;  // waits for a read in progress
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Returns the micro-batches of the next step, and starts to read the step after it. Throws
  // InternalError if no step is left. Rethrows an exception of read_step; after that, next() must
  // not be called again.
  std::vector<Batch> next();

 private:
  void start();

  ReadStep read_step_;
  int64_t step_;  // the step being read
  int64_t end_step_;
  // Declared last so that its destructor, which waits, runs first.
  std::future<std::vector<Batch>> pending_;
};

// A function that changes a batch after it was read, such as mask_tokens() (masking.h). Null: no
// change.
using ChangeBatch = std::function<void(Batch&)>;

// Returns a loader for the training steps [first_step, end_step). The loader owns the mixture.
BatchLoader make_training_loader(Mixture mixture, BatchShape shape, int64_t first_step,
                                 int64_t end_step, ChangeBatch change = nullptr);
// Returns a loader for all steps of one evaluation (num_evaluation_steps(), sampler.h). The loader
// owns the dataset.
BatchLoader make_evaluation_loader(TokenDataset dataset, BatchShape shape,
                                   ChangeBatch change = nullptr);

}  // namespace colossal::data
