// Controls how autograd keeps the tensors that operators, ours included, save for the backward
// pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace colossal::memory {

// A saved tensor, between the forward pass and its use in the backward pass.
class SavedTensor {
 public:
  virtual ~SavedTensor() = default;
  // Returns a tensor with the saved values and shape. May throw IoError.
  virtual at::Tensor restore() = 0;
};

// Sizes, strides and offset of a view, to make an equal view of a copy of the view's storage.
class ViewGeometry {
 public:
  explicit ViewGeometry(const at::Tensor& view)
      : sizes_(view.sizes().vec()),
        strides_(view.strides().vec()),
        offset_(view.storage_offset()) {}
  // Returns the equal view of `memory`, a copy of the storage.
  at::Tensor in(const at::Tensor& memory) const {
    return memory.as_strided(sizes_, strides_, offset_);
  }

 private:
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_;
};

// Keeps the tensor as it is, on the device, without its autograd graph. Notifies the observer.
std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor);

class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  // Called with each tensor when autograd saves it. Returns what restores it.
  virtual std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) = 0;
};

// While this exists, `policy` decides how the tensors that this thread's forward passes save are
// kept. If scopes are nested, the innermost one decides. The policy must outlive the autograd
// graphs made meanwhile. Destroy on the constructing thread. LibTorch asks its autograd engine for
// default hooks. The first scope or observer therefore installs, for the whole process, an engine
// that asks the calling thread's scope and otherwise behaves as LibTorch's own.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorPolicy* before_;
};

// While this exists, `see` is called with each tensor that this thread keeps on the device for the
// backward pass: each that autograd saves, or, within a SavedTensorScope, each for which the policy
// calls keep() or note_saved_tensor(). If observers are nested, only the innermost one is called.
class SavedTensorObserver {
 public:
  using See = std::function<void(const at::Tensor&)>;
  explicit SavedTensorObserver(See see);
  ~SavedTensorObserver();
  SavedTensorObserver(const SavedTensorObserver&) = delete;
  SavedTensorObserver& operator=(const SavedTensorObserver&) = delete;

 private:
  See see_;
  const See* before_;
};

// Notifies the observer of a tensor that is kept by other means than keep().
void note_saved_tensor(const at::Tensor& tensor);

}  // namespace colossal::memory
