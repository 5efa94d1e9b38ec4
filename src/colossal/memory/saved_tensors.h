// Saved-tensor hooks by default: what autograd and our Functions keep for the backward pass passes
// through hooks of the caller's.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>

namespace colossal::memory {

// While one lives, every tensor that this thread saves gets hooks made by `make`. The innermost
// decides. LibTorch asks its engine for default hooks: the first scope installs one that asks this
// thread's scope, for the whole process, and otherwise is LibTorch's own.
class SavedTensorScope {
 public:
  using MakeHooks = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;
  explicit SavedTensorScope(MakeHooks make);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  MakeHooks make_;
  const MakeHooks* before_;
};

// Calls `saved` for each tensor that this thread saves while the result lives; the tensors are kept
// as they are.
SavedTensorScope watch_saved_tensors(std::function<void(const at::Tensor&)> saved);

}  // namespace colossal::memory
