#include "colossal/memory/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

#include <utility>

namespace colossal::memory {
namespace {

using torch::autograd::SavedVariableHooks;

thread_local const SavedTensorScope::MakeHooks* make_hooks = nullptr;

class EngineWithHooks final : public torch::autograd::Engine {
 public:
  static torch::autograd::Engine& get() {
    static auto* const engine = new EngineWithHooks;
    return *engine;
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    return make_hooks ? (*make_hooks)() : nullptr;
  }
};

class WatchedTensor final : public SavedVariableHooks {
 public:
  explicit WatchedTensor(const std::function<void(const at::Tensor&)>& saved) : saved_(saved) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    saved_(tensor);
    tensor_ = tensor;
  }
  at::Tensor call_unpack_hook() override { return tensor_; }

 private:
  std::function<void(const at::Tensor&)> saved_;
  at::Tensor tensor_;
};

}  // namespace

SavedTensorScope::SavedTensorScope(MakeHooks make)
    : make_(std::move(make)), before_(std::exchange(make_hooks, &make_)) {
  static const bool installed = [] {
    torch::autograd::set_default_engine_stub(&EngineWithHooks::get);
    return true;
  }();
  static_cast<void>(installed);
}

SavedTensorScope::~SavedTensorScope() {
  make_hooks = before_;
}

SavedTensorScope watch_saved_tensors(std::function<void(const at::Tensor&)> saved) {
  return SavedTensorScope(
      [saved = std::move(saved)] { return std::make_unique<WatchedTensor>(saved); });
}

}  // namespace colossal::memory
