#include "colossal/ops/deferred_gradients.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/AutogradState.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <utility>

namespace colossal::ops {
namespace {

thread_local DeferredGradients* into_of_thread = nullptr;

class BackwardOnThisThread {
 public:
  BackwardOnThisThread() : before_(state().get_multithreading_enabled()) {
    state().set_multithreading_enabled(false);
  }
  ~BackwardOnThisThread() { state().set_multithreading_enabled(before_); }
  BackwardOnThisThread(const BackwardOnThisThread&) = delete;
  BackwardOnThisThread& operator=(const BackwardOnThisThread&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }
  bool before_;
};

}  // namespace

void run_backward(const std::vector<torch::autograd::Edge>& outputs,
                  std::vector<at::Tensor> gradients, bool keep_graph) {
  torch::autograd::edge_list roots;
  torch::autograd::variable_list upstream;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!outputs[i].is_valid() || !gradients[i].defined()) continue;
    roots.push_back(outputs[i]);
    upstream.push_back(std::move(gradients[i]));
  }
  if (roots.empty()) return;
  const BackwardOnThisThread on_this_thread;
  torch::autograd::Engine::get_default_engine().execute(roots, upstream, keep_graph,
                                                        /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
}

DeferredGradients* DeferredGradients::of_this_thread() {
  return into_of_thread;
}

DeferredGradients::Scope::Scope(DeferredGradients& into)
    : before_(std::exchange(into_of_thread, &into)) {}

DeferredGradients::Scope::~Scope() {
  into_of_thread = before_;
}

void DeferredGradients::defer_gradients(size_t first_input, Compute compute) {
  const auto& inputs = torch::autograd::get_current_node()->next_edges();
  entries_.push_back({{inputs.begin() + static_cast<std::ptrdiff_t>(first_input), inputs.end()},
                      std::move(compute)});
}

void DeferredGradients::run() {
  while (!entries_.empty()) {
    const Entry entry = std::move(entries_.front());
    entries_.pop_front();
    std::vector<at::Tensor> gradients = [&] {
      const at::NoGradGuard no_grad;
      return entry.compute();
    }();
    run_backward(entry.inputs, std::move(gradients), /*keep_graph=*/true);
  }
}

}  // namespace colossal::ops
