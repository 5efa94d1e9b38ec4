// A batch of samples as tensors, and the samples into which a corpus is divided.
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

// Further values of a batch that a loss needs, e.g. rewards.
struct BatchField {
  at::Tensor values;  // [batch, ...]; or [] or [1]: one value for the whole batch
  // The dimension of `values` that runs over the positions of a sequence, if there is one. Sequence
  // parallelism shards this dimension in the same way as the tokens.
  std::optional<int64_t> sequence_dim = std::nullopt;
};

// The samples of one forward pass. A row is a sample. Batches that are read from data are on the
// CPU. local_batch() (engine/batch_context.h) copies a rank's part of a batch to its device.
struct Batch {
  // Tokens, [batch, sequence] int64. (For a user's own torch module: any tensor.)
  at::Tensor inputs;
  // [batch, sequence] int64: the token that follows each input; -100: the loss ignores the
  // position.
  at::Tensor labels;
  // [batch]: a number for each row, from which its random numbers (dropout masks) follow. In
  // training, it is the position of the row in the run's order of samples, so that a sample has new
  // dropout masks in each epoch.
  std::vector<int64_t> sample_ids;
  // [batch, sequence] int64: the number of each input's document; attention does not cross
  // documents. Numbers are unique only within a row. An undefined tensor: each row is one document.
  at::Tensor documents = {};
  // [batch, sequence] int64: the position of each input, for position embeddings. An undefined
  // tensor: 0, 1, 2, ... in each row.
  at::Tensor positions = {};
  // Number of inputs, over all rows, that are padding. Metrics do not count them as tokens.
  int64_t padding = 0;
  std::map<std::string, BatchField> fields = {};  // by name
};

// Of an encoder-decoder: names of the batch fields with the tokens of each row's source text, which
// the encoder reads, [batch, source positions] int64, and with their document numbers, of the same
// shape: 0, or -1 for padding. Without the second field no source has padding. `inputs` and
// `labels` of the batch are those of the decoder: the target, of which each input is the token
// before its label. The fields have no sequence_dim, because sources have lengths of their own.
inline constexpr const char* kSourceField = "source";
inline constexpr const char* kSourceDocumentsField = "source_documents";
// Adds both fields, with uninitialized sources as long as the inputs, for dry runs.
void add_source(Batch& batch);

// Returns Batch::documents for these inputs: for each token, the number of its document within its
// row, from 0. inputs: [batch, sequence] int64. end_of_document: the token that ends a document,
// and belongs to it.
at::Tensor number_documents(const at::Tensor& inputs, int64_t end_of_document);

// The samples of a corpus. With S = sequence_length, the inputs of sample i are the S tokens of the
// corpus from token i * S on, and its labels are the S tokens from token i * S + 1 on. Immutable
// and thread-safe. Copies of a dataset share its tokens.
class TokenDataset {
 public:
  // end_of_document: the token that ends each document; if set, batches have `documents`. Throws
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
