// Controls how autograd keeps the tensors that operators save for the backward pass: a
// SavedTensorPolicy may keep, move or recompute each tensor. The operators of this project (ops/)
// save tensors in the same way as those of LibTorch.
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
  // Returns a tensor with the saved values and shape. Autograd calls this in the backward pass. May
  // throw IoError.
  virtual at::Tensor restore() = 0;
};

// The sizes, strides and offset of a view, to make the same view of another storage.
class ViewGeometry {
 public:
  explicit ViewGeometry(const at::Tensor& view)
      : sizes_(view.sizes().vec()),
        strides_(view.strides().vec()),
        offset_(view.storage_offset()) {}
  // Returns the view of the storage of `memory`. This storage must have the elements of the whole
  // storage of the original view, in the same places.
  at::Tensor in(const at::Tensor& memory) const {
    return memory.as_strided(sizes_, strides_, offset_);
  }

 private:
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_;
};

// Returns a saved tensor that keeps `tensor` on the device, without its autograd graph. Notifies
// the SavedTensorObserver (below) of this thread, if there is one.
std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor);

class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  // Called with each tensor when autograd saves it. Returns an object that restores the tensor; may
  // return null if no backward pass will need it.
  virtual std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) = 0;
  // Whether save() gets the tensor even if the program has hooks of its own for saved tensors, such
  // as Python's torch.autograd.graph.saved_tensors_hooks. All others then go to those.
  virtual bool insists_on(const at::Tensor& /*tensor*/) const { return false; }
};

// While this exists, each tensor that a forward pass on the constructing thread saves goes to
// policy.save(), which decides how the tensor is kept. If scopes overlap, the one decides that
// insists on the tensor, else the newest. The policy must outlive the autograd graphs made
// meanwhile. Destroy this on the constructing thread.
//
// LibTorch asks its autograd engine for the hooks that receive saved tensors. Therefore the first
// scope or observer, and the first one after another engine was installed, installs an engine whose
// hooks call the scope or observer of the thread that saves. In all else it passes on to the engine
// that was there before, such as that of Python.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorPolicy* policy_;
};

// While this exists, `see` is called with each tensor that the constructing thread keeps on the
// device for the backward pass. Without a SavedTensorScope, these are all tensors that autograd
// saves. Within a SavedTensorScope, these are the tensors for which the policy calls keep() or
// note_saved_tensor(). If observers are nested, only the innermost observer is called. Destroy this
// on the constructing thread.
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

// Notifies the thread's SavedTensorObserver, if it has one, of a tensor that is kept by other means
// than keep().
void note_saved_tensor(const at::Tensor& tensor);

}  // namespace colossal::memory
