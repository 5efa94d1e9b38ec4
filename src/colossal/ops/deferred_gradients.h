// Deferred weight gradients for pipeline parallelism (P. Qi et al. 2023, "Zero Bubble Pipeline
// Parallelism"). Another rank waits for the gradient of a stage's input, but no rank waits for the
// gradients of the stage's weights. The backward pass therefore computes only the gradients of
// inputs, and queues the computation of the weight gradients. The rank runs the queue when it would
// otherwise be idle.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <deque>
#include <functional>
#include <vector>

namespace colossal::ops {

// Runs the autograd graph backward from `outputs`, like torch::autograd::backward(), but takes
// edges instead of tensors, and runs all of it on the calling thread: LibTorch would run the
// backward pass of a GPU on a thread of its own, where the scopes of the calling thread (docs/
// architecture.md) are not seen. Adds the gradients of the leaves to their .grad. gradients[i]: the
// gradient of outputs[i]. `gradients` may have fewer elements than `outputs`. An output is skipped
// if its gradient is missing or undefined, or if its edge is invalid. keep_graph: does not free the
// graph's saved tensors, so that the graph can be run again.
void run_backward(const std::vector<torch::autograd::Edge>& outputs,
                  std::vector<at::Tensor> gradients, bool keep_graph);

// Queue of deferred computations of weight gradients. The queue keeps alive the tensors that these
// computations read. Not thread-safe.
class DeferredGradients {
 public:
  // Computes gradients and returns them; an undefined tensor stands for an input without gradient.
  // Called with autograd recording off.
  using Compute = std::function<std::vector<at::Tensor>()>;

  // Queues `compute`. Call this only within the backward() of a torch::autograd::Function. Number
  // the function's tensor inputs from 0; inputs that are not tensors do not count. `compute` must
  // return the gradients of the tensor inputs from number `first_input` on, in their order, and
  // backward() must return undefined gradients for these inputs.
  void defer_gradients(size_t first_input, Compute compute);
  // Runs the queued computations in the order in which they were queued, and empties the queue.
  // Each gradient is passed on to its input's autograd node, as a backward pass does: leaves
  // accumulate it, and hooks are called. If a computation throws, run() removes it from the queue
  // and rethrows; the computations after it remain in the queue.
  void run();
  bool empty() const { return entries_.empty(); }

  // Returns the queue of the calling thread's innermost Scope. Returns null if the thread has no
  // Scope; a backward function must then compute its weight gradients immediately.
  static DeferredGradients* of_this_thread();

  // While a Scope exists, of_this_thread() returns `into` on the thread that created the Scope.
  class Scope {
   public:
    explicit Scope(DeferredGradients& into);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DeferredGradients* before_;  // the enclosing Scope's queue; null if there is none
  };

 private:
  struct Entry {
    std::vector<torch::autograd::Edge> inputs;  // of the function, from first_input on
    Compute compute;
  };
  std::deque<Entry> entries_;
};

}  // namespace colossal::ops
