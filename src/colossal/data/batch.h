// Samples of a corpus as tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colossal/data/corpus.h"

namespace colossal::data {

// Numbers beside the tokens: of each sequence [batch, ..], or, where a dim runs over its positions,
// cut like them where several ranks share a sequence.
struct BatchField {
  at::Tensor values;
  std::optional<int64_t> sequence_dim = std::nullopt;
};

struct Batch {
  at::Tensor inputs;  // tokens [batch, sequence] int64, on the CPU (a user's module: anything)
  at::Tensor labels;  // [batch, sequence] int64: the token that follows; -100: ignored
  // Global number of each sequence, [batch]: the key of its random numbers. In training its
  // position in the run's order, so that a sample draws other masks in another epoch.
  std::vector<int64_t> sample_ids;
  // The document of each input, [batch, sequence] int64, where attention shall stay within them;
  // numbers have a meaning within their sequence only. Undefined: a sequence is one document.
  at::Tensor documents = {};
  // The position of each input, [batch, sequence] int64. Undefined: 0, 1, ... in each sequence.
  at::Tensor positions = {};
  int64_t padding = 0;  // inputs that are there only to fill rows: they are no tokens to count
  std::map<std::string, BatchField> fields = {};  // what a loss asks for, by name
};

// Of inputs [batch, sequence]: which document of its sequence each is of, from 0. The token that
// ends a document belongs to it.
at::Tensor number_documents(const at::Tensor& inputs, int64_t end_of_document);

// Sample i of a corpus is its tokens [i·S, (i+1)·S]: S inputs and S targets, the last target being
// the next sample's first token. A copy is a handle to the same tokens.
class TokenDataset {
 public:
  // end_of_document: batches tell documents apart, each of which ends with this token.
  // Throws ConfigError when the corpus has no more than `sequence_length` tokens: not one sample.
  TokenDataset(Corpus corpus, int64_t sequence_length,
               std::optional<int64_t> end_of_document = std::nullopt);

  int64_t num_samples() const { return (corpus_.num_tokens() - 1) / sequence_length_; }
  int64_t sequence_length() const { return sequence_length_; }
  const Corpus& corpus() const { return corpus_; }

  // Row r: sample samples[r], numbered sample_ids[r]. No samples give tensors of zero rows.
  Batch read(std::span<const int64_t> samples, std::span<const int64_t> sample_ids) const;

  // The same in parts, for a batch of several datasets that are alike but for their corpora: a
  // batch with room for rows of these numbers, and one row of it.
  Batch make_batch(std::span<const int64_t> sample_ids) const;
  void read_row(int64_t sample, int64_t row, Batch& batch) const;

 private:
  Corpus corpus_;
  int64_t sequence_length_;
  std::optional<int64_t> end_of_document_;
};

}  // namespace colossal::data
