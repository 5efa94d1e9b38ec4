// Deferred weight gradients (P. Qi et al. 2023, "Zero Bubble Pipeline Parallelism"). Other ranks
// wait for the gradients of a stage's inputs, so the backward pass computes these first. It puts
// the gradients of weights into a queue, and they are computed when the rank would otherwise wait.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <deque>
#include <functional>
#include <vector>

namespace colossal::ops {

// Runs the backward pass of the autograd graph that ends in `outputs`, from the outputs' gradients.
// Leaves accumulate their gradients as usual. gradients[i] belongs to outputs[i]; `gradients` may
// be shorter. Outputs without a gradient, with an undefined gradient or with an invalid edge are
// skipped. keep_graph: keeps the graph for another run.
void run_backward(const std::vector<torch::autograd::Edge>& outputs,
                  std::vector<at::Tensor> gradients, bool keep_graph);

// Queue of weight gradients that backward passes have deferred. It keeps alive the tensors from
// which they are computed. Not thread-safe.
class DeferredGradients {
 public:
  using Compute = std::function<std::vector<at::Tensor>()>;

  // Must be called within the backward function of a torch::autograd::Function, which then returns
  // undefined gradients for the function's inputs from `first_input` on. run() calls `compute`,
  // which returns the gradients of these inputs in their order. first_input counts only inputs that
  // are tensors.
  void defer_gradients(size_t first_input, Compute compute);
  // Computes the deferred gradients in the order in which they were deferred, accumulates them into
  // the leaves as a backward pass does, with hooks, and empties the queue.
  void run();
  bool empty() const { return entries_.empty(); }

  // Returns the queue of the calling thread's innermost Scope. Null if there is none; backward
  // functions then compute weight gradients at once.
  static DeferredGradients* of_this_thread();

  // While a Scope exists, backward functions that run on its thread defer weight gradients to
  // `into`.
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
