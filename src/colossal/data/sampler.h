// Which samples a step reads, and which of them a replica reads. A function of the seed and of
// global indices alone: the same at every number of ranks, and a resumed run needs only its step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/layout/partition.h"

namespace colossal::data {

// The run's order: position i (from 0, across epochs) reads sample sample_at(i). Each epoch of
// num_samples positions is a permutation of the samples by (seed, epoch), computed for one position
// at a time: nothing is stored.
class SampleOrder {
 public:
  // source: which of a run's sources the samples are of; each has an order of its own.
  SampleOrder(int64_t num_samples, uint64_t seed, int64_t source = 0);

  int64_t num_samples() const { return num_samples_; }
  int64_t epoch_at(int64_t position) const { return position / num_samples_; }
  int64_t sample_at(int64_t position) const;

 private:
  int64_t num_samples_;
  uint64_t seed_;
  std::string purpose_;  // of the random numbers
};

// How a step's sequences are divided over replicas and forward passes.
struct BatchShape {
  int64_t global_batch = 1;  // sequences a step, over all replicas
  int64_t micro_batch = 0;   // most sequences a forward; 0: the replica's whole share
  int num_replicas = 1;
  int replica = 0;
};

// The positions that the replica reads in training step `step` (from 0), a range a micro-batch.
// The step reads positions step·B .. step·B + B−1 of the run's order, the replica a contiguous
// share; B is a multiple of num_replicas. The last micro-batch may be short.
std::vector<Range> training_micro_batches(const BatchShape& shape, int64_t step);

// Evaluation reads every sample once, in order, in ⌈num_samples / B⌉ steps.
int64_t num_evaluation_steps(const BatchShape& shape, int64_t num_samples);

// The samples that the replica reads in evaluation step `step`, a range a micro-batch. The last
// step may be short, its shares uneven. All replicas get the same number of ranges, so that they
// run as many forward passes; the last ones of a replica with a smaller share may be empty.
std::vector<Range> evaluation_micro_batches(const BatchShape& shape, int64_t num_samples,
                                            int64_t step);

}  // namespace colossal::data
