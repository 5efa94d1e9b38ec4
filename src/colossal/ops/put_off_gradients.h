// A backward pass in two halves (P. Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): gradients
// of inputs, for which other ranks wait, now; gradients of weights when there is time.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <deque>
#include <functional>
#include <vector>

namespace colossal::ops {

// Runs the graph behind `outputs` backward with these gradients, as a backward pass does: leaves
// accumulate. Outputs without an edge or a gradient, and those beyond the gradients, are left out.
// keep_graph: it may run again.
void run_graph(const std::vector<torch::autograd::Edge>& outputs, std::vector<at::Tensor> gradients,
               bool keep_graph);

// Gradients of weights that backward passes have put off. It keeps alive what they need.
class PutOffGradients {
 public:
  using Compute = std::function<std::vector<at::Tensor>()>;

  // Called in the backward of an autograd function: its inputs from `first_input` on (tensors only,
  // as in save_for_backward) get undefined gradients now, and the results of `compute` later.
  void put_off(size_t first_input, Compute compute);
  // Computes what was put off, in that order, and accumulates it into the leaves behind the inputs,
  // whose hooks run as in a backward pass.
  void run();
  bool empty() const { return entries_.empty(); }

  // Where functions of this thread put off gradients; null: they compute them at once.
  static PutOffGradients* of_this_thread();

  // While one lives, gradients of this thread's backward pass go to `into`.
  class Scope {
   public:
    explicit Scope(PutOffGradients& into);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PutOffGradients* before_;
  };

 private:
  struct Entry {
    std::vector<torch::autograd::Edge> inputs;
    Compute compute;
  };
  std::deque<Entry> entries_;
};

}  // namespace colossal::ops
