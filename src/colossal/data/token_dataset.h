// The samples into which a corpus is divided.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "colossal/data/batch.h"
#include "colossal/data/corpus.h"

namespace colossal::data {

// The samples of a corpus. With S = sequence_length, the inputs of sample i are the S tokens of the
// corpus from token i * S on, and its labels are the S tokens from token i * S + 1 on. Immutable
// and thread-safe. Copies of a dataset share its tokens.
class TokenDataset {
 public:
  // end_of_document: the token that ends each document; if set, batches have kDocuments. Throws
  // ConfigError if sequence_length is below 1, or if the corpus has too few tokens for one sample,
  // i.e. at most sequence_length.
  TokenDataset(Corpus corpus, int64_t sequence_length,
               std::optional<int64_t> end_of_document = std::nullopt);

  int64_t num_samples() const { return (corpus_.num_tokens() - 1) / sequence_length_; }
  int64_t sequence_length() const { return sequence_length_; }
  const Corpus& corpus() const { return corpus_; }

  // Returns a batch whose row r is sample samples[r] and has Batch::sample_ids[r] = sample_ids[r].
  // If `samples` is empty, the tensors have zero rows. Throws InternalError if the two lists have
  // different lengths, or if a sample is not in [0, num_samples()).
  Batch read(std::span<const int64_t> samples, std::span<const int64_t> sample_ids) const;

  // The two parts of read(), for a batch with rows from several datasets. make_batch() returns a
  // batch with uninitialized rows; read_row() fills row `row` with sample `sample` of this dataset.
  // The datasets may differ only in their corpora.
  Batch make_batch(std::span<const int64_t> sample_ids) const;
  void read_row(int64_t sample, int64_t row, Batch& batch) const;

 private:
  Corpus corpus_;
  int64_t sequence_length_;
  std::optional<int64_t> end_of_document_;
};

}  // namespace colossal::data
