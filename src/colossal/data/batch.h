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

// Values that accompany the tokens, [batch, ...]. sequence_dim: the dimension of `values` that runs
// over sequence positions, if any; sequence parallelism shards it like the tokens.
struct BatchField {
  at::Tensor values;
  std::optional<int64_t> sequence_dim = std::nullopt;
};

struct Batch {
  // Tokens [batch, sequence] int64 on the CPU (any tensor for a user's own torch module).
  at::Tensor inputs;
  at::Tensor labels;  // [batch, sequence] int64: the next token; -100: ignored
  // [batch] The global id of each sequence, which seeds its random numbers. In training it is the
  // position in the run's order, so that a sample gets new dropout masks in every epoch.
  std::vector<int64_t> sample_ids;
  // [batch, sequence] int64: the document of each input, if attention is limited to documents. Ids
  // are unique only within a sequence. Undefined: each sequence is one document.
  at::Tensor documents = {};
  // [batch, sequence] int64: the position of each input. Undefined: 0, 1, ... in each sequence.
  at::Tensor positions = {};
  int64_t padding = 0;  // number of inputs that only pad rows and are not counted as tokens
  std::map<std::string, BatchField> fields = {};  // further inputs of a loss, by name
};

// Returns for inputs [batch, sequence] the 0-based number of each token's document within its
// sequence, [batch, sequence]. The token `end_of_document` belongs to the document that it ends.
at::Tensor number_documents(const at::Tensor& inputs, int64_t end_of_document);

// Sample i consists of the corpus tokens [i·S, (i+1)·S], both included, with S = sequence_length: S
// inputs and S labels; the last label is the first token of the next sample. Copies share the same
// tokens.
class TokenDataset {
 public:
  // end_of_document: the token that ends each document; if set, batches have `documents`. Throws
  // ConfigError if the corpus has at most `sequence_length` tokens, too few for one sample.
  TokenDataset(Corpus corpus, int64_t sequence_length,
               std::optional<int64_t> end_of_document = std::nullopt);

  int64_t num_samples() const { return (corpus_.num_tokens() - 1) / sequence_length_; }
  int64_t sequence_length() const { return sequence_length_; }
  const Corpus& corpus() const { return corpus_; }

  // Row r is sample samples[r] with the id sample_ids[r]. Without samples, the tensors have zero
  // rows.
  Batch read(std::span<const int64_t> samples, std::span<const int64_t> sample_ids) const;

  // read() in two parts, for a batch of several datasets that differ only in their corpora:
  // make_batch() allocates the rows, and read_row() fills one row.
  Batch make_batch(std::span<const int64_t> sample_ids) const;
  void read_row(int64_t sample, int64_t row, Batch& batch) const;

 private:
  Corpus corpus_;
  int64_t sequence_length_;
  std::optional<int64_t> end_of_document_;
};

}  // namespace colossal::data
