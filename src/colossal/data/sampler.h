// Decides which samples each step reads, and how they are divided over replicas and micro-batches.
// The samples of a step depend only on the data, the seed, the global batch and the number of the
// step. They are thus the same for any number of ranks, and a run can resume from its step number
// alone.
//
// The run's order of samples is the sequence of samples that training reads. A position in this
// order is counted from 0 through all epochs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/layout/partition.h"

namespace colossal::data {

// The order in which a run reads the samples of one source (a corpus or a list of samples):
// position i of this order is sample sample_at(i). Each epoch has num_samples positions, which are
// a pseudorandom permutation of the samples that depends on the seed and the epoch. With one
// source, this is the run's order. With several sources (Mixture), the run's order interleaves the
// orders of the sources; a position in one of these orders counts the samples of its source only
// (Interleaving::Place::index). Samples are computed position by position, without a table.
class SampleOrder {
 public:
  // num_samples: at least 1. source: index of the source in a mixture; different sources have
  // different permutations.
  SampleOrder(int64_t num_samples, uint64_t seed, int64_t source = 0);

  int64_t num_samples() const { return num_samples_; }
  // Returns the epoch of a position, from 0.
  int64_t epoch_at(int64_t position) const { return position / num_samples_; }
  // Returns the sample at a position, a number from 0 to num_samples - 1.
  int64_t sample_at(int64_t position) const;

 private:
  int64_t num_samples_;
  uint64_t seed_;
  std::string purpose_;  // random stream name
};

// How a step's samples are divided over replicas and forward passes.
struct BatchShape {
  int64_t global_batch = 1;  // samples per step, over all replicas
  int64_t micro_batch = 0;   // most samples per forward pass; 0: all samples of the replica's share
  int num_replicas = 1;
  int replica = 0;  // index of this rank's replica
};

// Returns the positions, in the run's order of samples, that the replica shape.replica reads in
// training step `step` (from 0): one range per micro-batch. With B = global_batch, the step reads
// the positions step * B to step * B + B - 1, and each replica reads a contiguous share of these.
// The last micro-batch may be smaller than the others. Throws InternalError if global_batch is not
// a multiple of num_replicas.
std::vector<Range> training_micro_batches(const BatchShape& shape, int64_t step);

// Returns the number of steps of an evaluation, which reads each sample once, in order: num_samples
// / shape.global_batch, rounded up.
int64_t num_evaluation_steps(const BatchShape& shape, int64_t num_samples);

// Returns the samples that the replica shape.replica reads in evaluation step `step`: one range per
// micro-batch. step: from 0, below num_evaluation_steps(). num_samples: number of samples of the
// evaluation. The samples of a step are divided among the replicas as evenly as possible, so the
// shares may have different sizes, above all in the last step. All replicas nevertheless get the
// same number of ranges, so that they run the same number of forward passes; the last ranges of a
// replica may be empty.
std::vector<Range> evaluation_micro_batches(const BatchShape& shape, int64_t num_samples,
                                            int64_t step);

}  // namespace colossal::data
