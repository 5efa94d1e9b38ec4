#include "colossal/memory/saved_tensors.h"

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/input_buffer.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "colossal/memory/saved_version.h"

namespace colossal::memory {
namespace {

using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;
using torch::autograd::variable_list;

// Of the scopes of this thread, the innermost last. Scopes of a program's models need not end in
// the order in which they nest.
thread_local std::vector<SavedTensorPolicy*> policies_of_thread;
thread_local const SavedTensorObserver::See* watch_of_thread = nullptr;

class Kept final : public SavedTensor {
 public:
  // Without its graph: a node that saves its own result would own itself and leak if no backward
  // pass runs.
  explicit Kept(const at::Tensor& tensor) : tensor_(tensor.tensor_data()), version_(tensor) {}
  at::Tensor restore() override {
    version_.check(tensor_.sizes());
    return tensor_;
  }

 private:
  at::Tensor tensor_;
  SavedVersion version_;
};

// Returns the policy that insists on the tensor, else the innermost one; null if there is none.
SavedTensorPolicy* policy_for(const at::Tensor& tensor) {
  for (auto policy = policies_of_thread.rbegin(); policy != policies_of_thread.rend(); ++policy) {
    if ((*policy)->insists_on(tensor)) return *policy;
  }
  return policies_of_thread.empty() ? nullptr : policies_of_thread.back();
}

class Hooks final : public SavedVariableHooks {
 public:
  // others: the program's own hooks, or null.
  explicit Hooks(std::unique_ptr<SavedVariableHooks> others) : others_(std::move(others)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    SavedTensorPolicy* const policy = policy_for(tensor);
    if (others_ && !policy->insists_on(tensor)) return others_->call_pack_hook(tensor);
    others_.reset();
    saved_ = policy ? policy->save(tensor) : keep(tensor);
  }
  at::Tensor call_unpack_hook() override {
    return others_ ? others_->call_unpack_hook() : saved_->restore();
  }
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return others_ ? others_->retrieve_unpack_hook_data()
                   : SavedVariableHooks::retrieve_unpack_hook_data();
  }

 private:
  std::unique_ptr<SavedVariableHooks> others_;
  std::unique_ptr<SavedTensor> saved_;
};

// The engine that was installed before ours.
std::atomic<Engine*> engine_before{nullptr};

class EngineWithHooks final : public Engine {
 public:
  static Engine& get() {
    static auto* const engine = new EngineWithHooks;
    return *engine;
  }

  variable_list execute(const edge_list& roots, const variable_list& inputs, bool keep_graph,
                        bool create_graph, bool accumulate_grad,
                        const edge_list& outputs) override {
    return before().execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task,
      c10::intrusive_ptr<torch::autograd::Node> root,
      torch::autograd::InputBuffer&& inputs) override {
    return before().execute_with_graph_task(task, std::move(root), std::move(inputs));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return before().make_anomaly_metadata();
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    auto others = before().get_default_saved_variable_hooks();
    if (others && policies_of_thread.empty()) return others;
    if (policies_of_thread.empty() && !watch_of_thread) return nullptr;
    return std::make_unique<Hooks>(std::move(others));
  }

 private:
  static Engine& before() { return *engine_before; }
};

void install_engine() {
  Engine& installed = Engine::get_default_engine();
  if (&installed == &EngineWithHooks::get()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (&Engine::get_default_engine() != &installed) return;  // another thread was faster
  engine_before = &installed;
  torch::autograd::set_default_engine_stub(&EngineWithHooks::get);
}

}  // namespace

std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor) {
  note_saved_tensor(tensor);
  return std::make_unique<Kept>(tensor);
}

void note_saved_tensor(const at::Tensor& tensor) {
  if (watch_of_thread) (*watch_of_thread)(tensor);
}

SavedTensorScope::SavedTensorScope(SavedTensorPolicy& policy) : policy_(&policy) {
  policies_of_thread.push_back(policy_);
  install_engine();
}

SavedTensorScope::~SavedTensorScope() {
  const auto last = std::find(policies_of_thread.rbegin(), policies_of_thread.rend(), policy_);
  if (last != policies_of_thread.rend()) policies_of_thread.erase(std::next(last).base());
}

SavedTensorObserver::SavedTensorObserver(See see)
    : see_(std::move(see)), before_(std::exchange(watch_of_thread, &see_)) {
  install_engine();
}

SavedTensorObserver::~SavedTensorObserver() {
  watch_of_thread = before_;
}

}  // namespace colossal::memory
