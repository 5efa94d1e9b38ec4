// The context of a forward pass, passed to every layer. It makes dropout, packing and generation
// independent of the layout.
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
  double temperature = 1;  // divides the logits of log-probabilities

  int64_t batch = 0;           // sequences of this micro-batch on this rank
  int64_t sequence = 0;        // positions of each sequence on this rank
  int64_t whole_sequence = 0;  // positions of each sequence over all ranks that share it
  int64_t length = 0;          // whole length of each sequence, including positions in the KV cache
  // [batch, sequence] int64, on the host: the length of each token's sequence, if a row holds
  // tokens of several sequences. Undefined: `length` for all tokens.
  at::Tensor lengths;
  // [batch]: global sample number of each sequence. Dropout masks depend on it, so a sample has the
  // same mask on any rank.
  std::vector<int64_t> sample_ids;
  // [sequence] int64, or [batch, sequence] if rows differ: the position of each token in its
  // sequence. Rotary embedding, position embeddings and dropout use it. In generation it may begin
  // above 0.
  at::Tensor positions;
  // [batch, whole_sequence] int64, on the activations' device: the document of each position of the
  // whole sequence; attention does not cross documents. Undefined: each sequence is one document.
  at::Tensor documents;
  // [batch, positions] int64: the document of each position of the memory of cross-attention.
  // Queries belong to document 0 if `documents` is undefined. Padding of the memory is a document
  // of its own. Undefined: all queries attend to the whole memory.
  at::Tensor memory_documents;
  // [batch]: number of leading positions of each sequence that all its queries attend to, also
  // queries before them (prefix LM). Empty: none.
  std::vector<int64_t> prefix_lengths;

  // Hidden states of another model for the preceding tokens, in the layout of activations between
  // blocks: input of a draft model for speculative decoding, besides its tokens. Undefined: none.
  at::Tensor states;

  // This rank's rows with per-request adapters: ascending, disjoint. Other rows use the model's own
  // adapters only.
  std::vector<AdaptedRows> adapted_rows;

  KeyValueStore* key_values = nullptr;      // KV cache, in generation; null: none
  BlockRunner* block_runner = nullptr;      // runs the repeated blocks; null: run in order
  RouterRecords* router_records = nullptr;  // receives router statistics; null: none
};

// Returns a context with positions [begin, begin + sequence) on `device` and sample ids 0 ..
// batch-1.
StepContext make_step_context(int64_t batch, int64_t sequence, at::Device device,
                              int64_t begin = 0);

}  // namespace colossal::nn
