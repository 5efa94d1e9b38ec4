// Deferred weight gradients (P. Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): the backward
// pass computes gradients of inputs, which other ranks wait for, at once, and gradients of weights
// when there is time.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <deque>
#include <functional>
#include <vector>

namespace colossal::ops {

// Runs the backward pass of the graph that ends in `outputs`, with these gradients; leaves
// accumulate as usual. gradients may be shorter than outputs; outputs without a gradient, with an
// undefined gradient or with an invalid edge are skipped. keep_graph: keep the graph for another
// run.
void run_graph(const std::vector<torch::autograd::Edge>& outputs, std::vector<at::Tensor> gradients,
               bool keep_graph);

// Queue of weight gradients that backward passes have deferred. Keeps the tensors alive that their
// computation needs.
class DeferredGradients {
 public:
  using Compute = std::function<std::vector<at::Tensor>()>;

  // Called within the backward function of a torch::autograd::Function. Defers the gradients of its
  // inputs from `first_input` on (tensors only, as for save_for_backward): the backward function
  // returns undefined gradients for them, and run() computes them by `compute`.
  void defer_gradients(size_t first_input, Compute compute);
  // Computes the deferred gradients in the order in which they were deferred, and accumulates them
  // into the leaves, whose hooks run as in a backward pass.
  void run();
  bool empty() const { return entries_.empty(); }

  // Returns the queue of the calling thread's innermost Scope; null if there is none: backward
  // functions then compute weight gradients at once.
  static DeferredGradients* of_this_thread();

  // While a Scope exists, backward functions of its thread defer weight gradients to `into`.
  class Scope {
   public:
    explicit Scope(DeferredGradients& into);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeferredGradients* before_;
  };

 private:
  struct Entry {
    std::vector<torch::autograd::Edge> inputs;
    Compute compute;
  };
  std::deque<Entry> entries_;
};

}  // namespace colossal::ops
