// DeviceTable: numbers that are made on the host once and read on a device many times.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "colossal/ops/upload.h"

namespace colossal::ops {

class DeviceTable {
 public:
  DeviceTable() = default;
  explicit DeviceTable(at::Tensor on_host) : host_(std::move(on_host)) {}

  bool defined() const { return host_.defined(); }
  const at::Tensor& on_host() const { return host_; }
  // Returns the numbers on the device. They are copied to it by the first call, and by a call for
  // another device than the last one; the host does not wait.
  const at::Tensor& on(const at::Device& device) const {
    if (device == host_.device()) return host_;
    if (!copy_.defined() || copy_.device() != device) copy_ = upload(host_, device);
    return copy_;
  }

 private:
  at::Tensor host_;
  mutable at::Tensor copy_;
};

}  // namespace colossal::ops
