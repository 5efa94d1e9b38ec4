#include "colossal/memory/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <utility>

namespace colossal::memory {
namespace {

using torch::autograd::SavedVariableHooks;

thread_local SavedTensorPolicy* policy_of_thread = nullptr;
thread_local const SavedTensorObserver::See* watch_of_thread = nullptr;

class Kept final : public SavedTensor {
 public:
  // Without its graph: a node that saves its own result would own itself and leak if no backward
  // pass runs.
  explicit Kept(const at::Tensor& tensor) : tensor_(tensor.tensor_data()) {}
  at::Tensor restore() override { return tensor_; }

 private:
  at::Tensor tensor_;
};

class Hooks final : public SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override {
    saved_ = policy_of_thread ? policy_of_thread->save(tensor) : keep(tensor);
  }
  at::Tensor call_unpack_hook() override { return saved_->restore(); }

 private:
  std::unique_ptr<SavedTensor> saved_;
};

class EngineWithHooks final : public torch::autograd::Engine {
 public:
  static torch::autograd::Engine& get() {
    static auto* const engine = new EngineWithHooks;
    return *engine;
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (!policy_of_thread && !watch_of_thread) return nullptr;
    return std::make_unique<Hooks>();
  }
};

void install_engine() {
  static const bool installed = [] {
    torch::autograd::set_default_engine_stub(&EngineWithHooks::get);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace

std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor) {
  note_saved_tensor(tensor);
  return std::make_unique<Kept>(tensor);
}

void note_saved_tensor(const at::Tensor& tensor) {
  if (watch_of_thread) (*watch_of_thread)(tensor);
}

SavedTensorScope::SavedTensorScope(SavedTensorPolicy& policy)
    : before_(std::exchange(policy_of_thread, &policy)) {
  install_engine();
}

SavedTensorScope::~SavedTensorScope() {
  policy_of_thread = before_;
}

SavedTensorObserver::SavedTensorObserver(See see)
    : see_(std::move(see)), before_(std::exchange(watch_of_thread, &see_)) {
  install_engine();
}

SavedTensorObserver::~SavedTensorObserver() {
  watch_of_thread = before_;
}

}  // namespace colossal::memory
