// Decides how the tensors are kept that autograd and our Functions save for the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace colossal::memory {

// A tensor between its saving and its use in the backward pass.
class SavedTensor {
 public:
  virtual ~SavedTensor() = default;
  virtual at::Tensor restore() = 0;
};

// Where a view lies in its memory, so that the same view can be made in a copy of that memory.
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

// Keeps the tensor as it is.
std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor);

class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  virtual std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) = 0;
};

// While a scope lives, `policy` decides how this thread's tensors are saved; of nested scopes the
// innermost. The policy must outlive the graph. LibTorch asks its engine for default hooks: the
// first scope installs one that asks this thread's scope, for the whole process, and otherwise is
// LibTorch's own.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorPolicy* before_;
};

// While one lives, `see` is called with each tensor that this thread keeps for the backward pass,
// after the policy if there is one; of nested ones only the innermost is called.
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

// Tells the observer of a tensor that is kept in another way than by keep().
void note_saved_tensor(const at::Tensor& tensor);

}  // namespace colossal::memory
