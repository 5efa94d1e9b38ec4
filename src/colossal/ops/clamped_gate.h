// The gate of GPT-OSS's experts (OpenAI 2025).
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

struct ClampedGate {
  double slope = 1.702;
  double limit = 7;

  bool operator==(const ClampedGate&) const = default;
};

// (up + 1) * gate * sigmoid(slope * gate) of gate and up in turns, [.., 2 features] -> [..,
// features]; gate is at most `limit` before, and up between -limit and limit. Differentiable, on
// any device and on meta; the backward pass keeps the input only. InternalError: an odd last dim.
at::Tensor clamped_gate(const at::Tensor& pairs, const ClampedGate& options);

}  // namespace colossal::ops
