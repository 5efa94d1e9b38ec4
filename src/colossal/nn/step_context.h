// What every layer must know about a forward pass. Its global numbers of samples and positions make
// dropout masks, packed sequences and generation the same in every layout.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/nn/adapter_weights.h"

namespace colossal::nn {

class BlockRunner;
class KeyValueStore;
struct RouterRecords;

struct StepContext {
  uint64_t seed = 0;
  int64_t step = 0;        // number of updates before this step; part of each random number's key
  bool training = false;   // dropout is active in training only
  bool adapted = true;     // false: layers ignore the model's own adapters
  double temperature = 1;  // divides the logits; loss_sum(), scores() and logits() ignore it

  int64_t batch = 0;           // sequences of this micro-batch on this rank
  int64_t sequence = 0;        // positions of each sequence on this rank
  int64_t whole_sequence = 0;  // positions of each sequence over all ranks that share it
  int64_t length = 0;          // positions of each sequence, with those in the KV cache
  // [batch, sequence] int64, on the host: the length of the sequence of each token, if one row
  // holds tokens of several sequences. Undefined: `length` for all tokens.
  at::Tensor lengths;
  // [batch]: global sample number of each sequence. Dropout masks depend on it, so a sample has the
  // same mask on any rank.
  std::vector<int64_t> sample_ids;
  // [sequence] int64, or [batch, sequence] if rows differ: the position of each token in its
  // sequence. Rotary embedding, position embeddings and dropout use these positions. In generation
  // they may begin above 0.
  at::Tensor positions;
  // [batch, whole_sequence] int64, on the activations' device: the document of each position of the
  // whole sequence; attention does not cross documents. Undefined: each sequence is one document.
  at::Tensor documents;
  // [batch, positions] int64: the document of each position of the memory that cross-attention
  // attends to. A query attends to the positions of its own document, which is 0 if `documents` is
  // undefined; padding of the memory is therefore given another number. Undefined: all queries
  // attend to the whole memory.
  at::Tensor memory_documents;
  // [batch]: number of leading positions of each sequence that all its queries attend to, even
  // queries at earlier positions (prefix LM). Empty: none.
  std::vector<int64_t> prefix_lengths;

  // Input of a draft model for speculative decoding, besides its tokens: the hidden states of the
  // other model for the preceding tokens, in the layout of activations between blocks. Undefined:
  // none.
  at::Tensor states;

  // The rows with per-request adapters, of the tokens [batch * sequence]: ascending, disjoint. All
  // rows use the model's own adapter, too, if it has one and `adapted` is set.
  std::vector<AdaptedRows> adapted_rows;

  KeyValueStore* key_values = nullptr;      // KV cache, in generation; null: none
  BlockRunner* block_runner = nullptr;      // runs each block; null: Block::forward()
  RouterRecords* router_records = nullptr;  // receives router statistics; null: none
};

// Returns a context with positions [begin, begin + sequence) on `device`, sample ids 0 .. batch -
// 1, and `length` begin + sequence. The other fields have their defaults.
StepContext make_step_context(int64_t batch, int64_t sequence, at::Device device,
                              int64_t begin = 0);

}  // namespace colossal::nn
