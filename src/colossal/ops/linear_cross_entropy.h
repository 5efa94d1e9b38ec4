// The end of a language model in one operator: product with the vocabulary, softmax, cross-entropy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace colossal::ops {

inline constexpr int64_t kIgnoredLabel = -100;
inline constexpr int64_t kDefaultLogitsBytes = int64_t{64} << 20;

// How logits are made of the products x weight^T: soft_cap * tanh(scale * (products + z up^T +
// bias) / soft_cap). By default the products are the logits.
struct LogitOptions {
  at::Tensor bias;  // [rows of the weight], of x's type; undefined: none
  double scale = 1;
  double soft_cap = 0;  // 0: none
  // What a low-rank adapter adds: z [.., rank] in the place of x, up [rows of the weight, rank].
  // Undefined: nothing.
  at::Tensor z{}, up{};
};

// Returns the logits [.., rows of the weight] of products.
at::Tensor finish_logits(const at::Tensor& products, const LogitOptions& options);

// Sum of the cross-entropies of labels against the logits, a scalar in fp32 (fp64 for
// fp64), without low-rank adapters; softmax statistics are in that type too. Differentiable in x,
// weight and bias.
//   x       [tokens, hidden]
//   weight  [vocabulary, hidden], of x's type
//   labels  [tokens] int64, in [0, vocabulary) or kIgnoredLabel
//   logits_bytes  of logits that may be held at once
// The logits exist for linear_cross_entropy_rows() tokens at a time, and become their own gradient
// there, so that both gradients are ready when the forward pass ends: three products in all, none
// repeated (P. Hsu et al., "Liger Kernel", 2024). The backward pass only scales them by the
// gradient of the sum. The weight's gradient is summed over the blocks in fp32 (fp64); where that
// sum takes more memory than the logits of all tokens, see linear_cross_entropy_keeps_logits().
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const LogitOptions& options = {},
                                int64_t logits_bytes = kDefaultLogitsBytes);

// The part of a vocabulary whose rows are here, and how the parts come together (M. Shoeybi et al.,
// "Megatron-LM", 2019, section 3: logits never travel).
struct VocabularyShard {
  int64_t begin = 0;       // global index of the first row of `weight`
  int64_t largest = 0;     // rows of the largest part: how many tokens make a block on all ranks
  int64_t vocabulary = 0;  // of all parts
  // Replaces statistics of tokens over this part, [3, tokens] in fp32 (fp64 for fp64), by those
  // over the whole vocabulary. Rows: the largest logit; the sum of exp(logit - largest); the
  // label's logit, 0 where it is not here. Called for a block of tokens after the other.
  std::function<void(const at::Tensor& statistics)> combine;
  std::function<void(const at::Tensor& numbers)> sum;  // over the parts, in place
};

// The same where `weight`, and the bias, is a part of the vocabulary: labels are global, the sum of
// the losses is the whole's, the gradient of x is this part's share of it.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const VocabularyShard& shard,
                                const LogitOptions& options = {},
                                int64_t logits_bytes = kDefaultLogitsBytes);

// Returns how many tokens' logits are held at once: as many as logits_bytes hold, at least one.
int64_t linear_cross_entropy_rows(int64_t tokens, int64_t vocabulary, at::ScalarType type,
                                  int64_t logits_bytes = kDefaultLogitsBytes);

// Whether the logits of all tokens are held at once, and their gradient is kept for the backward
// pass, which makes the weight's gradient of it. True in bf16, if that takes no more memory than a
// block of logits and the weight's gradient in fp32: with few tokens for the hidden size.
bool linear_cross_entropy_keeps_logits(int64_t tokens, int64_t hidden, int64_t vocabulary,
                                       at::ScalarType type,
                                       int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
