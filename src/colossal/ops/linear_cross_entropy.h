// Vocabulary projection, softmax and cross-entropy of a language model, fused into one operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace colossal::ops {

inline constexpr int64_t kIgnoredLabel = -100;
inline constexpr int64_t kDefaultLogitsBytes = int64_t{64} << 20;

// logits = soft_cap * tanh(scale * (x weight^T + z up^T + bias) / soft_cap). By default logits = x
// weight^T.
struct LogitOptions {
  at::Tensor bias;  // [rows of the weight], of x's type; undefined: no bias
  double scale = 1;
  double soft_cap = 0;  // 0: no cap
  // Low-rank adapter: z [.., rank], the down-projected x; up [rows of the weight, rank]. Both
  // undefined: no adapter.
  at::Tensor z{}, up{};
};

// Returns the logits [.., rows of the weight] from products = x weight^T.
at::Tensor finish_logits(const at::Tensor& products, const LogitOptions& options);

// Returns the sum of the cross-entropies over tokens, a scalar in fp32 (fp64 for fp64); softmax
// statistics are in that type too. Does not support low-rank adapters. Differentiable in x, weight
// and bias. Throws InternalError for a label outside the vocabulary (labels on the CPU only).
//   x       [tokens, hidden]
//   weight  [vocabulary, hidden], of x's type
//   labels  [tokens] int64, in [0, vocabulary) or kIgnoredLabel
//   logits_bytes  the most bytes of logits that are held at once
// The logits exist for linear_cross_entropy_rows() tokens at a time and are overwritten by their
// gradient, so that the gradients of x and weight are ready when the forward pass ends: three
// matrix products in all, none of them repeated (P. Hsu et al., "Liger Kernel", 2024). The backward
// pass only scales these gradients by the gradient of the sum. The weight gradient is accumulated
// over blocks of tokens in fp32 (fp64); if that takes more memory than the logits of all tokens,
// see linear_cross_entropy_keeps_logits().
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const LogitOptions& options = {},
                                int64_t logits_bytes = kDefaultLogitsBytes);

// One rank's shard of a vocabulary, and the reductions over all shards (M. Shoeybi et al.,
// "Megatron-LM", 2019, section 3: logits are never communicated).
struct VocabularyShard {
  int64_t begin = 0;       // global index of the first row of `weight`
  int64_t largest = 0;     // rows of the largest shard; fixes the tokens per block on all ranks
  int64_t vocabulary = 0;  // rows of all shards
  // Reduces, in place, the softmax statistics of tokens over this shard, [3, tokens] in fp32 (fp64
  // for fp64), to those over the whole vocabulary. Rows: the largest logit; the sum of exp(logit -
  // largest); the label's logit, 0 if the label is in another shard. Called for each block of
  // tokens in turn.
  std::function<void(const at::Tensor& statistics)> combine;
  std::function<void(const at::Tensor& numbers)> sum;  // over the shards, in place
};

// Variant for a sharded vocabulary: `weight` and the bias are this rank's shard; labels are global.
// Returns the loss over the whole vocabulary; the gradient of x is this shard's term, to be summed
// over the shards.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const VocabularyShard& shard,
                                const LogitOptions& options = {},
                                int64_t logits_bytes = kDefaultLogitsBytes);

// Returns the number of tokens per block, whose logits are held at once: as many as fit into
// logits_bytes, but at least one.
int64_t linear_cross_entropy_rows(int64_t tokens, int64_t vocabulary, at::ScalarType type,
                                  int64_t logits_bytes = kDefaultLogitsBytes);

// Returns whether the logits of all tokens are held at once, and their gradient is kept for the
// backward pass, which then computes the weight gradient. True in bf16 if this takes no more memory
// than a block of logits and the weight gradient in fp32, as with few tokens relative to the hidden
// size.
bool linear_cross_entropy_keeps_logits(int64_t tokens, int64_t hidden, int64_t vocabulary,
                                       at::ScalarType type,
                                       int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
