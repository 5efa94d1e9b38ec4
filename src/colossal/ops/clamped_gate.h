// The gated activation of GPT-OSS's experts (OpenAI 2025). activation.h has the usual ones.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Constants of clamped_gate(). The defaults are those of GPT-OSS.
struct ClampedGate {
  double slope = 1.702;  // factor of gate inside the sigmoid
  double limit = 7;      // bound of the clamps, above 0

  bool operator==(const ClampedGate&) const = default;
};

// Returns (up + 1) * gate * sigmoid(slope * gate), [.., features]. Before that, clamps gate to at
// most `limit`, and up to the range [-limit, limit]. pairs: [.., 2 * features]; along the last dim,
// gate is at the even indices and up at the odd ones. Differentiable, on any device and on meta.
// Saves only its input for the backward pass. Throws InternalError if the size of the last dim is
// odd.
at::Tensor clamped_gate(const at::Tensor& pairs, const ClampedGate& options);

}  // namespace colossal::ops
