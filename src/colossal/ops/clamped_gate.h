// Gated activation of GPT-OSS's experts (OpenAI 2025).
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

struct ClampedGate {
  double slope = 1.702;
  double limit = 7;

  bool operator==(const ClampedGate&) const = default;
};

// Returns (up + 1) * gate * sigmoid(slope * gate), [.., features], after clamping gate to at most
// `limit` and up to [-limit, limit]. pairs: gate and up interleaved, [.., 2 * features].
// Differentiable, on any device and on meta; the backward pass saves the input only. Throws
// InternalError if the last dim is odd.
at::Tensor clamped_gate(const at::Tensor& pairs, const ClampedGate& options);

}  // namespace colossal::ops
