// Copies from the host to a device for which the host does not wait.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns the tensor on `device`. To a GPU it goes through pinned memory, and later kernels of the
// current stream see it; `on_host` may be changed at once. Returns it as it is if it is there.
inline at::Tensor upload(const at::Tensor& on_host, const at::Device& device) {
  if (!device.is_cuda() || !on_host.is_cpu()) return on_host.to(device);
  return on_host.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace colossal::ops
