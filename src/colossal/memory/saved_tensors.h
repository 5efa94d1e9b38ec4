// Controls how tensors are kept that autograd and our autograd functions save for the backward
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
  virtual at::Tensor restore() = 0;
};

// Sizes, strides and offset of a view, to make the same view of a copy of its memory.
class ViewPlace {
 public:
  explicit ViewPlace(const at::Tensor& view)
      : sizes_(view.sizes().vec()),
        strides_(view.strides().vec()),
        offset_(view.storage_offset()) {}
  at::Tensor in(const at::Tensor& memory) const {
    return memory.as_strided(sizes_, strides_, offset_);
  }

 private:
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_;
};

// Keeps the tensor unchanged.
std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor);

class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  virtual std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) = 0;
};

// While this exists, `policy` decides how this thread's tensors are saved. If scopes are nested,
// the innermost one decides. The policy must outlive the graph. LibTorch asks its autograd engine
// for default hooks. The first scope therefore installs, for the whole process, an engine that asks
// this thread's scope and otherwise behaves as LibTorch's own.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorPolicy* before_;
};

// While this exists, `see` is called with each tensor that this thread keeps for the backward pass,
// after the policy if there is one. If observers are nested, only the innermost one is called.
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
