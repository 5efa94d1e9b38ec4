// The keys and values of cross-attention in serving: those of each source text that the encoder of
// an encoder-decoder has read. A forward pass of the decoder has batch size 1: its row contains
// tokens of several sequences, each with its own source. The caller calls add() for new sources and
// begin_step(), and runs the decoder's blocks with the store as StepServices::memories. Not
// thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "colossal/nn/step_context.h"

namespace colossal::nn {

class MemoryStore {
 public:
  // Consecutive tokens of a forward pass that attend to the same source.
  struct Chunk {
    int64_t source = 0;  // the number that add() was given
    int64_t count = 0;   // number of tokens
  };

  // each_token_alone: the attention of each token is computed separately, as in
  // PagedKeyValueOptions.
  explicit MemoryStore(bool each_token_alone) : each_token_alone_(each_token_alone) {}

  // Adds a source. memory: the encoder's output, [1, positions, hidden], or this rank's shard of
  // it. context: of the encoder's pass. A layer computes its keys and values in its next project().
  void add(int64_t source, const at::Tensor& memory, const StepContext& context);
  // Forgets a source.
  void remove(int64_t source);
  // Begins a step: sets the tokens of the forward passes until the next call of begin_step().
  void begin_step(const std::vector<Chunk>& chunks);

  // Computes the keys and values of a layer for the sources that were added since the last step.
  // key_value: returns the concatenated keys and values of a memory; see
  // CrossAttention::forward().
  using KeyValue = std::function<at::Tensor(const at::Tensor& memory, const StepContext& context)>;
  void project(int64_t layer, const KeyValue& key_value);

  // The tokens of the step; with each_token_alone, each chunk has one token.
  const std::vector<Chunk>& chunks() const { return chunks_; }
  // Returns the keys and values of a layer, [1, positions, features]. Throws InternalError if there
  // are none.
  const at::Tensor& key_value(int64_t layer, int64_t source) const;

 private:
  struct Source {
    at::Tensor memory;  // undefined once all layers have their keys and values
    StepContext context;
    std::map<int64_t, at::Tensor> layers;  // keys and values by layer
  };

  bool each_token_alone_;
  std::map<int64_t, Source> sources_;
  std::vector<Chunk> chunks_;
};

}  // namespace colossal::nn
