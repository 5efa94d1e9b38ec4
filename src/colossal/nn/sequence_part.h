// SequencePart: which positions of a sequence this rank computes, and on which device.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>

#include <cstdint>
#include <functional>

#include "colossal/ops/upload.h"

namespace colossal::nn {

struct SequencePart {
  at::Device device = at::kCPU;
  // Returns the positions that this rank computes of a sequence of `length` positions, [positions
  // on this rank] int64 on the host. Null: all.
  std::function<at::Tensor(int64_t length)> positions_of = nullptr;

  at::Tensor positions(int64_t length) const {
    return positions_of ? positions_of(length) : at::arange(length, at::kLong);
  }
  // Returns this rank's positions of `whole` on the device. dim: the dimension of the sequence.
  at::Tensor of(const at::Tensor& whole, int64_t dim) const {
    const at::Tensor here =
        positions_of ? whole.index_select(dim, positions_of(whole.size(dim))) : whole;
    return ops::upload(here, device);
  }
};

}  // namespace colossal::nn
