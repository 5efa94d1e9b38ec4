// The batches of training and evaluation steps, read ahead.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/data/mixture.h"
#include "colossal/data/sampler.h"

namespace colossal::data {

// The replica's micro-batches of training step `step` (from 0), and of evaluation step `step`.
std::vector<Batch> read_training_step(const Mixture& mixture, const BatchShape& shape,
                                      int64_t step);
std::vector<Batch> read_evaluation_step(const TokenDataset& dataset, const BatchShape& shape,
                                        int64_t step);

// Reads the next step's micro-batches on a thread while the current step runs.
class BatchLoader {
 public:
  using ReadStep = std::function<std::vector<Batch>(int64_t step)>;

  // Steps first_step .. end_step-1. `read_step` is called from other threads, once at a time.
  BatchLoader(ReadStep read_step, int64_t first_step, int64_t end_step);
  ~BatchLoader() = default;  // waits for the read under way
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Throws what reading this step threw; nothing more can be read then.
  std::vector<Batch> next();

 private:
  void start();

  ReadStep read_step_;
  int64_t step_;  // being read
  int64_t end_step_;
  std::future<std::vector<Batch>> pending_;  // last: destroyed, and so waited for, first
};

// Make loaders that keep alive what they read.
BatchLoader make_training_loader(Mixture mixture, BatchShape shape, int64_t first_step,
                                 int64_t end_step);
BatchLoader make_evaluation_loader(TokenDataset dataset, BatchShape shape);

}  // namespace colossal::data
