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

// Numbers that go with the tokens, [batch, ..]. If a dim runs over the positions of a sequence
// (sequence_dim), ranks that share a sequence cut it as they cut the tokens.
struct BatchField {
  at::Tensor values;
  std::optional<int64_t> sequence_dim = std::nullopt;
};

struct Batch {
  at::Tensor inputs;  // tokens [batch, sequence] int64, on the CPU (a user's module: anything)
  at::Tensor labels;  // [batch, sequence] int64: the token that follows; -100: ignored
  // The global number of each sequence, [batch], which is the key of its random numbers. In
  // training it is the position in the run's order, so that a sample gets other masks in another
  // epoch.
  std::vector<int64_t> sample_ids;
  // The document of each input, [batch, sequence] int64, if attention must stay within documents.
  // Numbers have a meaning within their sequence only. Undefined: a sequence is one document.
  at::Tensor documents = {};
  // The position of each input, [batch, sequence] int64. Undefined: 0, 1, ... in each sequence.
  at::Tensor positions = {};
  int64_t padding = 0;  // inputs that are there only to fill rows: they are no tokens to count
  std::map<std::string, BatchField> fields = {};  // what a loss asks for, by name
};

// Returns for inputs [batch, sequence] the number of each token's document within its sequence,
// from 0. The token that ends a document belongs to it.
at::Tensor number_documents(const at::Tensor& inputs, int64_t end_of_document);

// Sample i of a corpus is its tokens [i·S, (i+1)·S]: S inputs and S targets, the last target being
// the next sample's first token. A copy is a handle to the same tokens.
class TokenDataset {
 public:
  // With `end_of_document`, the token that ends each document, batches tell documents apart. Throws
  // ConfigError if the corpus has no more than `sequence_length` tokens, which is not one sample.
  TokenDataset(Corpus corpus, int64_t sequence_length,
               std::optional<int64_t> end_of_document = std::nullopt);

  int64_t num_samples() const { return (corpus_.num_tokens() - 1) / sequence_length_; }
  int64_t sequence_length() const { return sequence_length_; }
  const Corpus& corpus() const { return corpus_; }

  // Row r: sample samples[r], numbered sample_ids[r]. No samples give tensors of zero rows.
  Batch read(std::span<const int64_t> samples, std::span<const int64_t> sample_ids) const;

  // read() in two parts, for a batch from several datasets that differ in their corpora only:
  // make_batch() makes room for the rows, and read_row() fills one.
  Batch make_batch(std::span<const int64_t> sample_ids) const;
  void read_row(int64_t sample, int64_t row, Batch& batch) const;

 private:
  Corpus corpus_;
  int64_t sequence_length_;
  std::optional<int64_t> end_of_document_;
};

}  // namespace colossal::data
