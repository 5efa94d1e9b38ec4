// Reads the batches of training and evaluation steps, one step ahead.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/data/mixture.h"
#include "colossal/data/sampler.h"

namespace colossal::data {

// Return the micro-batches that replica `shape.replica` reads in step `step` (0-based) of training
// or of an evaluation.
std::vector<Batch> read_training_step(const Mixture& mixture, const BatchShape& shape,
                                      int64_t step);
std::vector<Batch> read_evaluation_step(const TokenDataset& dataset, const BatchShape& shape,
                                        int64_t step);

// Reads the next step's micro-batches on another thread while the current step runs. Not
// thread-safe.
class BatchLoader {
 public:
  using ReadStep = std::function<std::vector<Batch>(int64_t step)>;

  // Reads the steps [first_step, end_step) in order. Calls read_step from other threads, one call
  // at a time.
  BatchLoader(ReadStep read_step, int64_t first_step, int64_t end_step);
  ~BatchLoader() = default;  // waits for a read in progress
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Returns the micro-batches of the next step, which must be before end_step. Rethrows an
  // exception of read_step; after that, the loader must not be used.
  std::vector<Batch> next();

 private:
  void start();

  ReadStep read_step_;
  int64_t step_;  // the step being read
  int64_t end_step_;
  // Declared last so that its destructor, which waits, runs first.
  std::future<std::vector<Batch>> pending_;
};

// Create loaders that own the mixture or dataset. An evaluation loader reads all steps of one
// evaluation.
BatchLoader make_training_loader(Mixture mixture, BatchShape shape, int64_t first_step,
                                 int64_t end_step);
BatchLoader make_evaluation_loader(TokenDataset dataset, BatchShape shape);

}  // namespace colossal::data
