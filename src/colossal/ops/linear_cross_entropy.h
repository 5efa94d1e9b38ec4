// The end of a language model, fused: product with the vocabulary, softmax, cross-entropy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops {

inline constexpr int64_t kIgnoredLabel = -100;
inline constexpr int64_t kDefaultLogitsBytes = int64_t{64} << 20;

// Sum of the cross-entropies of labels against the logits x weight^T, a scalar in fp32 (fp64 for
// fp64); softmax statistics are in that type too. Differentiable in x and weight.
//   x       [tokens, hidden]
//   weight  [vocabulary, hidden], of x's type
//   labels  [tokens] int64, in [0, vocabulary) or kIgnoredLabel
//   logits_bytes  of logits that may be held at once
// The logits exist for linear_cross_entropy_rows() tokens at a time, and become their own gradient
// there, so that both gradients are ready when the forward pass ends: three products in all, none
// repeated (P. Hsu et al., "Liger Kernel", 2024). The backward pass only scales them by the
// gradient of the sum. The weight's gradient is summed over the blocks in fp32 (fp64).
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels,
                                int64_t logits_bytes = kDefaultLogitsBytes);

// Tokens whose logits are held at once: as many as logits_bytes hold, at least one.
int64_t linear_cross_entropy_rows(int64_t tokens, int64_t vocabulary, at::ScalarType type,
                                  int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
