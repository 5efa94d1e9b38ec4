// What a forward pass must know beyond its activations. Every layer takes it; it is what keeps
// dropout, packing and generation independent of the layout.
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
  int64_t step = 0;        // updates done before this one: part of every random number's key
  bool training = false;   // dropout acts in training only
  bool adapted = true;     // false: products compute as if they had no adapter of the model's own
  double temperature = 1;  // divides logits before log-probabilities are taken

  int64_t batch = 0;           // sequences in this micro-batch on this rank
  int64_t sequence = 0;        // positions of each on this rank
  int64_t whole_sequence = 0;  // positions of each over all ranks that share it
  int64_t length = 0;          // ... with those before them, whose keys and values are stored
  // [batch, sequence] int64, on the host: the length of each token's sequence, where a row holds
  // tokens of several. Undefined: `length` for all.
  at::Tensor lengths;
  // Global sample numbers of the sequences, [batch]. Dropout goes by them, so that a sample has the
  // same mask on any rank.
  std::vector<int64_t> sample_ids;
  // Position of each column in its sequence, [sequence] int64, or [batch, sequence] where rows
  // differ. Rotation, position embeddings and dropout go by it. In generation it starts beyond 0.
  at::Tensor positions;
  // The document of each position of the whole sequence, [batch, whole_sequence] int64, where the
  // activations are: attention stays within documents. Undefined: each sequence is one.
  at::Tensor documents;
  // The document of each position of a memory that cross-attention sees, [batch, positions] int64;
  // queries are of document 0 where `documents` is undefined. What pads the memory is a document of
  // its own. Undefined: all is seen.
  at::Tensor memory_documents;
  // [batch]: how many first positions of a sequence all of its queries see, also earlier ones.
  // Empty: none.
  std::vector<int64_t> prefix_lengths;

  // What another model has computed of the tokens before these, an activation as those between
  // blocks: what a model that guesses for it reads beside tokens. Undefined: nothing.
  at::Tensor states;

  // Rows of this rank's tokens that have an adapter of their own: ascending, disjoint. Other rows
  // have the model's own adapter only.
  std::vector<AdaptedRows> adapted_rows;

  KeyValueStore* key_values = nullptr;      // generating: past keys and values
  BlockRunner* block_runner = nullptr;      // how repeated blocks run; null: one after the other
  RouterRecords* router_records = nullptr;  // where routers say what they did; null: nowhere
};

// Positions [begin, begin + sequence) on `device`, and ids 0 .. batch-1.
StepContext make_step_context(int64_t batch, int64_t sequence, at::Device device,
                              int64_t begin = 0);

}  // namespace colossal::nn
