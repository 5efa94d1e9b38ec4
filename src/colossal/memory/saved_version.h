// The version of a tensor when autograd saved it, as autograd itself compares it where it saves
// tensors alone: each operation in place makes a new version.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

namespace colossal::memory {

class SavedVersion {
 public:
  explicit SavedVersion(const at::Tensor& tensor)
      : counter_(tensor.unsafeGetTensorImpl()->version_counter()),
        saved_(counter_.enabled() ? counter_.current_version() : 0) {}

  // Throws c10::Error if the tensor was changed in place since then.
  void check(at::IntArrayRef sizes) const {
    TORCH_CHECK(!counter_.enabled() || counter_.current_version() == saved_,
                "one of the variables needed for gradient computation has been modified by an "
                "inplace operation: a tensor of shape ",
                sizes, " is at version ", counter_.current_version(), "; expected version ", saved_,
                ". A step of the optimizer changes weights, too: run backward() before it");
  }

 private:
  c10::VariableVersion counter_;  // shared with the tensor
  uint32_t saved_;
};

}  // namespace colossal::memory
