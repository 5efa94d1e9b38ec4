// A copy from a device to the host for which the host waits later.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace colossal::ops {

class Download {
 public:
  // Begins to copy what the current stream has computed. On the CPU there is nothing to copy.
  explicit Download(const at::Tensor& tensor);
  // Waits for the copy and returns it.
  const at::Tensor& wait();

 private:
  at::Tensor on_host_;
  std::optional<c10::Event> copied_;  // nullopt: nothing is to be waited for
};

}  // namespace colossal::ops
