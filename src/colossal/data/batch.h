// A batch of samples as tensors, and the samples of a corpus.
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

// Values that accompany the tokens. values: [batch, ...]. sequence_dim: the dimension of `values`
// that runs over sequence positions, if any; sequence parallelism shards this dimension like the
// tokens.
struct BatchField {
  at::Tensor values;
  std::optional<int64_t> sequence_dim = std::nullopt;
};

struct Batch {
  // Tokens [batch, sequence] int64 on the CPU. (For a user's own torch module: any tensor.)
  at::Tensor inputs;
  at::Tensor labels;  // [batch, sequence] int64: the token after each input; -100: no loss here
  // [batch] The global id of each row, which seeds the row's random numbers. In training, the id is
  // the row's position in the run's sample order, so that a sample gets new dropout masks in every
  // epoch.
  std::vector<int64_t> sample_ids;
  // [batch, sequence] int64: the document number of each input, if attention is limited to
  // documents. Numbers are unique only within a row. An undefined tensor: each row is one document.
  at::Tensor documents = {};
  // [batch, sequence] int64: the position of each input. An undefined tensor: 0, 1, ... in each
  // row.
  at::Tensor positions = {};
  int64_t padding = 0;  // number of inputs that only pad rows; they are not counted as tokens
  std::map<std::string, BatchField> fields = {};  // further inputs of a loss, by name
};

// inputs: int64 [batch, sequence]. Returns an int64 tensor of this shape: for each token, the
// 0-based number of its document within its row. A token `end_of_document` belongs to the document
// that it ends.
at::Tensor number_documents(const at::Tensor& inputs, int64_t end_of_document);

// Sample i consists of the corpus tokens [i·S, (i+1)·S], both included, with S = sequence_length: S
// inputs and S labels; the last label is the first token of the next sample. Copies of a dataset
// share its tokens.
class TokenDataset {
 public:
  // end_of_document: the token that ends each document; if set, batches have `documents`. Throws
  // ConfigError if the corpus has at most `sequence_length` tokens, too few for one sample.
  TokenDataset(Corpus corpus, int64_t sequence_length,
               std::optional<int64_t> end_of_document = std::nullopt);

  int64_t num_samples() const { return (corpus_.num_tokens() - 1) / sequence_length_; }
  int64_t sequence_length() const { return sequence_length_; }
  const Corpus& corpus() const { return corpus_; }

  // Returns a batch whose row r is sample number samples[r], with the id sample_ids[r]. `samples`
  // may be empty: the tensors then have zero rows.
  Batch read(std::span<const int64_t> samples, std::span<const int64_t> sample_ids) const;

  // read() in two parts, for a batch with rows from several datasets that differ only in their
  // corpora: make_batch() allocates all rows, and read_row() fills row `row` with sample `sample`.
  Batch make_batch(std::span<const int64_t> sample_ids) const;
  void read_row(int64_t sample, int64_t row, Batch& batch) const;

 private:
  Corpus corpus_;
  int64_t sequence_length_;
  std::optional<int64_t> end_of_document_;
};

}  // namespace colossal::data
