// Samples of a corpus as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/data/corpus.h"

namespace colossal::data {

struct Batch {
  at::Tensor inputs;  // tokens [batch, sequence] int64, on the CPU (a user's module: anything)
  at::Tensor labels;  // [batch, sequence] int64: the token that follows; -100: ignored
  // Global number of each sequence, [batch]: the key of its random numbers. In training its
  // position in the run's order, so that a sample draws other masks in another epoch.
  std::vector<int64_t> sample_ids;
};

// Sample i of a corpus is its tokens [i·S, (i+1)·S]: S inputs and S targets, the last target being
// the next sample's first token. A copy is a handle to the same tokens.
class TokenDataset {
 public:
  // Throws ConfigError when the corpus has no more than `sequence_length` tokens: not one sample.
  TokenDataset(Corpus corpus, int64_t sequence_length);

  int64_t num_samples() const { return (corpus_.num_tokens() - 1) / sequence_length_; }
  int64_t sequence_length() const { return sequence_length_; }
  const Corpus& corpus() const { return corpus_; }

  // Row r: sample samples[r], numbered sample_ids[r]. No samples give tensors of zero rows.
  Batch read(std::span<const int64_t> samples, std::span<const int64_t> sample_ids) const;

 private:
  Corpus corpus_;
  int64_t sequence_length_;
};

}  // namespace colossal::data
