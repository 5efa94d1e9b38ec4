#include "colossal/ops/download.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace colossal::ops {

Download::Download(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) {
    on_host_ = tensor.cpu();
    return;
  }
  on_host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true));
  on_host_.copy_(tensor, /*non_blocking=*/true);
  copied_.emplace(tensor.device().type());
  copied_->record(c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
}

const at::Tensor& Download::wait() {
  if (copied_) copied_->synchronize();
  copied_.reset();
  return on_host_;
}

}  // namespace colossal::ops
