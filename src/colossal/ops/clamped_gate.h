// Gated activation of the experts in GPT-OSS (OpenAI 2025).
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

struct ClampedGate {
  double slope = 1.702;
  double limit = 7;

  bool operator==(const ClampedGate&) const = default;
};

// Returns (up + 1) * gate * sigmoid(slope * gate), [.., features], where gate is first clamped to
// at most `limit`, and up to [-limit, limit]. pairs: [.., 2 * features], with gate at the even and
// up at the odd indices. Differentiable, on any device and on meta. Saves only its input for
// backward. Throws InternalError if the last dim is odd.
at::Tensor clamped_gate(const at::Tensor& pairs, const ClampedGate& options);

}  // namespace colossal::ops
