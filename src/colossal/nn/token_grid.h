// TokenGrid: the tokens that one stack of a model's blocks computes in a forward pass. A decoder or
// an encoder has one stack; an encoder-decoder has two, and so has a model of two towers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal::nn {

// Numbers of positions are global, so that results do not depend on the layout of the job.
struct TokenGrid {
  int64_t batch = 0;     // number of sequences of the micro-batch on this rank
  int64_t sequence = 0;  // number of positions of each sequence on this rank
  // Number of positions of each sequence over all ranks that share it. May be 0 if ranks do not
  // share sequences and no layer applies an expert capacity.
  int64_t whole_sequence = 0;
  // Length of each sequence over all ranks that share it, including the positions in the KV cache.
  // Only rotary embeddings whose frequencies depend on the length read it.
  int64_t length = 0;
  // Replaces `length` if tokens of different texts are computed at once, as in serving: [batch,
  // sequence] int64 on the host, for each token the length of its text. Undefined: `length` holds
  // for all tokens.
  at::Tensor lengths = {};
  // The position of each token in its sequence: [sequence] int64, or [batch, sequence] if sequences
  // differ. Rotary embedding, position embeddings and dropout use these positions. In generation
  // they may begin above 0.
  at::Tensor positions = {};
  // [batch, positions of the whole sequence] int64, on the activations' device: the document number
  // of each position, also of positions on other ranks. Self-attention does not cross documents. In
  // cross-attention, a query attends to the memory's positions with its own document number, which
  // is 0 if the queries' grid has no documents. Give padding of a memory a number that no query
  // has. Undefined: each sequence is one document, and all queries attend to the whole memory.
  at::Tensor documents = {};
  // The lengths of the documents of all sequences, one sequence after another, if `documents`
  // numbers runs of positions; empty: not given. Only for self-attention on GPUs.
  std::vector<int64_t> document_lengths = {};
  // [batch]: number of leading positions of each sequence to which all its queries attend, even
  // queries at earlier positions (prefix LM). Empty: none.
  std::vector<int64_t> prefix_lengths = {};

  // Whether the batch has nothing for the stack, such as a batch of texts for a tower of images.
  bool is_empty() const { return batch == 0; }
  // Returns the grid of the sequences `rows` alone.
  TokenGrid of_rows(Range rows) const;
};

// Returns the grid of `batch` sequences of `sequence` tokens. Its positions are [begin, begin +
// sequence), on `device`; `length` is begin + sequence. All other fields have their defaults
// (whole_sequence is 0).
TokenGrid make_token_grid(int64_t batch, int64_t sequence, at::Device device, int64_t begin = 0);

}  // namespace colossal::nn
