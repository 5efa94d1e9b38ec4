// The description of a forward pass that a model passes to every layer: where its tokens are, what
// its random numbers depend on, and the services that run beside it. Sample numbers and positions
// are global, so that results do not depend on the layout of the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "colossal/nn/adapter_weights.h"
#include "colossal/nn/token_grid.h"

namespace colossal::nn {

class BlockRunner;
class KeyValueStore;
class MemoryStore;
struct RouterRecords;

// What layers call or fill during a forward pass. Pointers are not owned; each may be null.
struct StepServices {
  // KV cache, in generation; only if this rank has all positions of its sequences.
  KeyValueStore* key_values = nullptr;
  // The keys and values of cross-attention, in generation. The decoder then runs alone.
  MemoryStore* memories = nullptr;
  BlockRunner* block_runner = nullptr;      // runs each block; null: Block::forward() is called
  RouterRecords* router_records = nullptr;  // receives statistics of the routers
  // The tokens with per-request adapters, as ascending, disjoint ranges of the flattened tokens
  // [batch * sequence]. If the model has adapters of its own and StepContext::adapted is true,
  // these apply to all tokens in addition.
  std::vector<AdaptedRows> adapted_rows = {};
};

struct StepContext {
  uint64_t seed = 0;      // of dropout masks
  int64_t step = 0;       // number of updates before this step; dropout masks depend on it
  bool training = false;  // dropout and expert capacity are active in training only
  bool adapted = true;    // false: layers do not apply the model's own adapters
  // [batch]: global sample number of each sequence. Dropout masks depend on it, so a sample has the
  // same mask on any rank.
  std::vector<int64_t> sample_ids;
  // The tokens of each of the model's stacks of blocks, in the order of the stacks: one grid in
  // most models; encoder and decoder; images and texts.
  std::vector<TokenGrid> grids = {TokenGrid()};
  size_t stack = 0;  // the stack whose layers read this context
  StepServices services;

  // The grid of the stack whose layers read this context.
  TokenGrid& tokens() { return grids[stack]; }
  const TokenGrid& tokens() const { return grids[stack]; }
  // Returns the context for the layers of another stack.
  StepContext of_stack(size_t other) const;
  // Returns a copy with which layers do not apply the model's own adapters (`adapted`).
  StepContext without_adapters() const;
};

// Returns a context for `batch` sequences of `sequence` tokens, with the grid of make_token_grid().
// sample_ids are 0, 1, .., batch - 1. All other fields have their defaults.
StepContext make_step_context(int64_t batch, int64_t sequence, at::Device device,
                              int64_t begin = 0);

}  // namespace colossal::nn
