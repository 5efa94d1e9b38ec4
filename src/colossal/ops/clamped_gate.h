// The gated activation of GPT-OSS's experts (OpenAI 2025). activation.h has the usual ones.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Constants of clamped_gate(). The defaults are those of GPT-OSS.
struct ClampedGate {
  double slope = 1.702;  // factor of the gate inside the sigmoid
  double limit = 7;      // bound of the clamps, above 0

  bool operator==(const ClampedGate&) const = default;
};

// pairs: [.., 2 * features]; along the last dim, the numbers g (gate) are at the even indices and
// the numbers u (up) at the odd ones. Clamps g to at most `limit`. Clamps u to [-limit, limit].
// Returns (u + 1) * g * sigmoid(slope * g) of the clamped numbers, [.., features]. Differentiable,
// on any device and on meta. Saves only its input for the backward pass. Throws InternalError if
// the size of the last dim is odd.
at::Tensor clamped_gate(const at::Tensor& pairs, const ClampedGate& options);

}  // namespace colossal::ops
