// The description of a forward pass that a model passes to every layer: sizes, positions and sample
// numbers of the tokens, dropout seed, KV cache, adapters. Sample numbers and positions are global,
// so that results do not depend on the layout of the job.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "colossal/nn/adapter_weights.h"

namespace colossal::nn {

class BlockRunner;
class KeyValueStore;
class MemoryStore;
struct RouterRecords;

struct StepContext {
  uint64_t seed = 0;      // of dropout masks
  int64_t step = 0;       // number of updates before this step; dropout masks depend on it
  bool training = false;  // dropout and expert capacity are active in training only
  bool adapted = true;    // false: layers do not apply the model's own adapters
  // Divides the logits in VocabularyHead::log_probabilities(), logits_here() and divergences();
  // other functions ignore it.
  double temperature = 1;

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
  at::Tensor lengths;
  // [batch]: global sample number of each sequence. Dropout masks depend on it, so a sample has the
  // same mask on any rank.
  std::vector<int64_t> sample_ids;
  // The position of each token in its sequence: [sequence] int64, or [batch, sequence] if sequences
  // differ. Rotary embedding, position embeddings and dropout use these positions. In generation
  // they may begin above 0.
  at::Tensor positions;
  // [batch, sequence] int64, like `positions`: the type of each token, for models that distinguish
  // the texts of a pair by types. Undefined: all tokens have type 0.
  at::Tensor token_types;
  // [batch, positions of the whole sequence] int64, on the activations' device: the document number
  // of each position, also of positions on other ranks. Attention does not cross documents.
  // Undefined: each sequence is one document.
  at::Tensor documents;
  // [batch, memory positions] int64, on the activations' device: the document number of each
  // position of the memory to which cross-attention attends. A query attends only to memory
  // positions with its own document number, which is 0 if `documents` is undefined. Give padding of
  // the memory a number that no query has. Undefined: all queries attend to the whole memory.
  at::Tensor memory_documents;
  // Of an encoder-decoder: the context of the encoder's blocks, with sizes, positions and documents
  // of the source text, and the source's tokens on this rank, [batch, source positions on this
  // rank] int64. null and undefined for other models.
  std::shared_ptr<const StepContext> source;
  at::Tensor source_tokens;
  // Relative position bias of self-attention (nn::RelativeBias), [query heads on this rank, 2 M +
  // 1]. The model sets it for its blocks; undefined if it has none.
  at::Tensor relative_bias;
  // The encoder's output, to which cross-attention attends, in the layout of activations between
  // the encoder's blocks. The model sets it for its decoder's blocks; otherwise undefined.
  at::Tensor memory;
  // [batch]: number of leading positions of each sequence to which all its queries attend, even
  // queries at earlier positions (prefix LM). Empty: none.
  std::vector<int64_t> prefix_lengths;

  // A second input of some draft models of speculative decoding: the hidden states of the target
  // model for the preceding tokens, in the layout of activations between blocks. Undefined for all
  // other models.
  at::Tensor states;

  // The tokens with per-request adapters, as ascending, disjoint ranges of the flattened tokens
  // [batch * sequence]. If the model has adapters of its own and `adapted` is true, these apply to
  // all tokens in addition.
  std::vector<AdaptedRows> adapted_rows;

  // Not owned; each may be null.
  // KV cache, in generation; only if this rank has all positions of its sequences.
  KeyValueStore* key_values = nullptr;
  // The keys and values of cross-attention, in generation. The decoder then runs alone: `source`
  // and `memory` are not used.
  MemoryStore* memories = nullptr;
  BlockRunner* block_runner = nullptr;      // runs each block; null: Block::forward() is called
  RouterRecords* router_records = nullptr;  // receives statistics of the routers

  // Returns a copy with which layers do not apply the model's own adapters (`adapted`), also in the
  // encoder.
  StepContext without_adapters() const;
};

// Returns a context for `batch` sequences of `sequence` tokens. Its positions are [begin, begin +
// sequence), on `device`; sample_ids are 0, 1, .., batch - 1; `length` is begin + sequence. All
// other fields have their defaults (whole_sequence is 0).
StepContext make_step_context(int64_t batch, int64_t sequence, at::Device device,
                              int64_t begin = 0);

}  // namespace colossal::nn
