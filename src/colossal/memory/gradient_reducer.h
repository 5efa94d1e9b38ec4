// GradientReducer: collects the gradients of a rank's chunks in backward passes, and reduces each
// chunk as soon as its gradients are complete (ChunkEngine says when, for each ZeRO stage).
//
// A backward pass reduces chunks in the reverse of the order in which the model uses them, which is
// the same on all ranks of a stage. Chunks with row blocks of a tied vocabulary table are reduced
// twice if the embedding and the head are on one stage and the chunks' whole gradients are on the
// device only temporarily: first the head's gradients are reduced, then the embedding's.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "colossal/memory/chunk.h"

namespace colossal::memory {

// Gradients that a backward pass does not add to those of the step yet.
class HeldGradients {
 private:
  friend class GradientReducer;
  struct Held {
    Chunk* chunk;
    size_t slot;
    bool tied;  // whether it is the gradient of the second layer that uses a tied table
    at::Tensor gradient;
  };
  std::vector<Held> held_;
};

// Not thread-safe: hooks of autograd run on the thread of the backward pass. The functions from
// begin_backward() to finish() are collective.
class GradientReducer {
 public:
  // trained: the chunks that are not frozen. writes: those of gradients to tiers. All must outlive
  // this object. once_per_step: ChunkOptions::reduce_once_per_step.
  GradientReducer(std::vector<Chunk*> trained, ChunkMemory& memory, bool once_per_step);
  ~GradientReducer();  // from then on, gradients are autograd's
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Has the gradients of `leaf`, a view of a slot's weights, collected as soon as autograd has
  // completed them, and its own hooks were called. tied: whether the leaf is that of the second
  // layer that uses a tied table.
  void watch(const at::Tensor& leaf, Chunk& chunk, size_t slot, bool tied);

  // begin: called when a gradient comes outside of a backward pass, and must begin one.
  void on_unannounced_pass(std::function<void()> begin) { begin_unannounced_ = std::move(begin); }

  // Begins a step: releases the gradients of the step before.
  void begin_step();
  // Begins a backward pass of a stage. last: whether it is the stage's last one of the step; if
  // another one follows nonetheless, gradients are reduced again.
  void begin_backward(bool last, int stage);
  void end_backward();
  // From now on, gradients are put into `held`, which must exist until the next call; null: they
  // are not held back.
  void hold(HeldGradients* held) { held_ = held; }
  // Adds gradients that were held back to those of the step.
  void take(HeldGradients held);
  // Waits until gradients are summed over the ranks that share them.
  void finish();

  // Returns the sum of squares of this rank's part of the gradients, after finish().
  ops::PendingSum squared_norm() const;

 private:
  class Hook;
  // A reduction of a chunk in a backward pass.
  struct Launch {
    Chunk* chunk;
    // Whether it reduces only the gradients from the second layer that uses a tied table. Another
    // Launch then reduces the gradients from the first.
    bool tied;
    bool ready() const { return (tied ? chunk->pending_tied : chunk->pending) == 0; }
  };

  // Marks the gradients that the backward pass of stage_ will produce as pending.
  void expect_gradients(Chunk& chunk);
  bool reduces_now(const Chunk& chunk) const;  // in the running backward pass
  // Called by the hook of `leaf` when leaf.grad() is complete, or its computation is deferred.
  void collect(Chunk& chunk, size_t slot, bool tied, const at::Tensor& leaf);
  // Adds a gradient to the chunk's whole gradients, and launches the reductions that are now ready.
  void take(Chunk& chunk, size_t slot, bool tied, at::Tensor gradient);
  void launch_ready_chunks();
  void launch(const Launch& next);
  void finish_oldest_reduction();
  void finish_keeping();

  // A hook of a node that accumulates a leaf's gradient.
  struct Watched {
    c10::intrusive_ptr<torch::autograd::Node> node;
    uintptr_t hook;
  };

  std::vector<Watched> watched_;
  std::function<void()> begin_unannounced_;
  bool in_pass_ = false;
  std::vector<Chunk*> trained_;  // the chunk used last is first
  ChunkMemory& memory_;
  bool once_per_step_;
  // By stage, the reductions of a backward pass in their order: first those of tied gradients, then
  // all others, both in the order of trained_.
  std::map<int, std::vector<Launch>> launch_orders_;
  const std::vector<Launch>* launch_order_ = nullptr;  // of the running backward pass
  size_t launched_ = 0;                                // number of entries of it launched so far
  int stage_ = 0;                                      // stage of the running backward pass
  std::set<int> reduced_stages_;    // those whose last pass of the step has begun
  bool last_pass_ = false;          // whether the running backward pass is its stage's last
  Chunk* launched_last_ = nullptr;  // its reduction may have to be continued
  Chunk* keeping_ = nullptr;        // the last reduced one, whose gradients may go to their tier
  std::deque<Launch> reducing_;     // launched, transient gradients not released yet; oldest first
  HeldGradients* held_ = nullptr;  // where the running pass holds back gradients; null: it does not
};

}  // namespace colossal::memory
