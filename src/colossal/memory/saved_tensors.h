// What becomes of the tensors that autograd and our Functions keep for the backward pass.
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

// Where a view lies in its memory, so that it is found in another copy of that.
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

// As it is.
std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor);

class SavedTensorPolicy {
 public:
  virtual ~SavedTensorPolicy() = default;
  virtual std::unique_ptr<SavedTensor> save(const at::Tensor& tensor) = 0;
};

// While one lives, `policy`, which must outlive the graph, decides over what this thread saves. The
// innermost does. LibTorch asks its engine for default hooks: the first scope installs one that
// asks this thread's scope, for the whole process, and otherwise is LibTorch's own.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy& policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;

 private:
  SavedTensorPolicy* before_;
};

// While one lives, it sees each tensor that this thread keeps for the backward pass, after the
// policy if there is one. The innermost does.
class KeptTensorWatch {
 public:
  using See = std::function<void(const at::Tensor&)>;
  explicit KeptTensorWatch(See see);
  ~KeptTensorWatch();
  KeptTensorWatch(const KeptTensorWatch&) = delete;
  KeptTensorWatch& operator=(const KeptTensorWatch&) = delete;

 private:
  See see_;
  const See* before_;
};

// Tells the watch of a tensor that is kept by other means than keep().
void note_kept(const at::Tensor& tensor);

}  // namespace colossal::memory
