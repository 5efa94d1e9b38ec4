// Decides which samples a step reads, and which of them each replica reads. A step's samples depend
// only on the seed and the step. So they are the same for any number of ranks, and resuming a run
// needs only its step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/layout/partition.h"

namespace colossal::data {

// The order in which a run reads the samples of one source: position i (0-based, counted across
// epochs; in a mixture, Interleaving::Place::index) reads sample sample_at(i). Each epoch of
// num_samples positions is a pseudorandom permutation that depends on the seed and the epoch. It is
// computed position by position, without a table.
class SampleOrder {
 public:
  // source: index of the source in a mixture. Different sources get different permutations.
  SampleOrder(int64_t num_samples, uint64_t seed, int64_t source = 0);

  int64_t num_samples() const { return num_samples_; }
  int64_t epoch_at(int64_t position) const { return position / num_samples_; }
  int64_t sample_at(int64_t position) const;

 private:
  int64_t num_samples_;
  uint64_t seed_;
  std::string purpose_;  // random stream name
};

// How a step's samples are divided over replicas and forward passes.
struct BatchShape {
  int64_t global_batch = 1;  // samples per step, over all replicas
  int64_t micro_batch = 0;   // maximum samples per forward pass; 0: the replica's whole share
  int num_replicas = 1;
  int replica = 0;  // index of this rank's replica
};

// Returns the positions of the run's sample order that the replica reads in training step `step`
// (0-based), one range per micro-batch. With B = global_batch, which must be a multiple of
// num_replicas, the step reads the positions step·B .. step·B + B−1, and each replica a contiguous
// share of them. The last micro-batch may be smaller.
std::vector<Range> training_micro_batches(const BatchShape& shape, int64_t step);

// Returns ⌈num_samples / global_batch⌉: evaluation reads every sample once, in order.
int64_t num_evaluation_steps(const BatchShape& shape, int64_t num_samples);

// Returns the samples that the replica reads in evaluation step `step`, one range per micro-batch.
// In the last step, replicas may have shares of different sizes. All replicas get the same number
// of ranges, so that they run the same number of forward passes; a replica with a smaller share may
// get empty ranges at the end.
std::vector<Range> evaluation_micro_batches(const BatchShape& shape, int64_t num_samples,
                                            int64_t step);

}  // namespace colossal::data
