// The loss of a language model: vocabulary projection, softmax and cross-entropy in one operator
// that need not hold the logits of all tokens at once. row_blocks.h has a variant for weights of
// which only a part is on the device at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace colossal::ops {

inline constexpr int64_t kIgnoredLabel = -100;  // label of a token without a loss, as in PyTorch
inline constexpr int64_t kDefaultLogitsBytes = int64_t{64} << 20;  // of logits held at once

// How logits are computed from x [.., hidden] and the vocabulary projection `weight` [vocabulary,
// hidden]: logits = soft_cap * tanh(scale * (x weight^T + z up^T + bias) / soft_cap). By default
// they are x weight^T.
struct LogitOptions {
  at::Tensor bias;  // [vocabulary], of x's type; undefined: no bias
  double scale = 1;
  double soft_cap = 0;  // 0: no tanh, logits = scale * (..)
  // Low-rank adapter of `weight`. z: [.., rank], the adapter's down-projection of x. up:
  // [vocabulary, rank]. Both undefined: no adapter.
  at::Tensor z{}, up{};
};

// Returns the logits, [.., vocabulary]. products: x weight^T, [.., vocabulary].
at::Tensor logits_from_products(const at::Tensor& products, const LogitOptions& options);

// Returns the sum of the tokens' cross-entropies, a scalar in fp64 for fp64, otherwise in fp32.
// Tokens with kIgnoredLabel add nothing. Differentiable in x, weight and bias; the backward pass
// can run only once.
//   x             [tokens, hidden]
//   weight        [vocabulary, hidden], of x's type
//   labels        [tokens] int64, in [0, vocabulary) or kIgnoredLabel
//   logits_bytes  maximum bytes of logits that are held at once; may be exceeded if weight requires
//                 a gradient and linear_cross_entropy_keeps_logits() is true
// Throws InternalError if sizes or types do not match, if options has a low-rank adapter, or if a
// label on the CPU is outside the vocabulary.
//
// Tokens are processed in blocks of linear_cross_entropy_block_tokens() tokens. If gradients are
// needed, the forward pass overwrites a block's logits by their gradient, and computes the
// gradients of x and weight from it (P. Hsu et al., "Liger Kernel", 2024). So there are three
// matrix products in all, and none is repeated. The weight gradient is accumulated over blocks in
// fp32 (fp64 for fp64). The backward pass only multiplies the finished gradients by the gradient of
// the result. Exception: if weight requires a gradient and linear_cross_entropy_keeps_logits() is
// true, there is one block of all tokens, and the backward pass computes the weight gradient.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const LogitOptions& options = {},
                                int64_t logits_bytes = kDefaultLogitsBytes);

// One rank's shard of a vocabulary, and the all-reduces over the ranks that hold the shards. Only
// statistics of the softmax are communicated, not logits (M. Shoeybi et al., "Megatron-LM", 2019,
// section 3).
struct VocabularyShard {
  int64_t begin = 0;       // global index of the first vocabulary entry in this shard
  int64_t largest = 0;     // entries in the largest shard; it gives all ranks one block size
  int64_t vocabulary = 0;  // entries in all shards
  // Collective. Combines softmax statistics over the shards: reads the statistics over this shard
  // and overwrites them with those over the whole vocabulary. statistics: [3, tokens] in fp32 (fp64
  // for fp64). Row 0: the largest logit. Row 1: the sum of exp(logit - largest logit). Row 2: the
  // label's logit, or 0 if the label is in another shard. linear_cross_entropy() calls it once for
  // each block of tokens.
  std::function<void(const at::Tensor& statistics)> combine;
  // Collective. Sums a tensor over the shards, in place. Used by divergence() (divergence.h),
  // not by linear_cross_entropy().
  std::function<void(const at::Tensor& numbers)> sum;
};

// linear_cross_entropy() for a sharded vocabulary. weight, options.bias: this rank's shard. labels:
// global indices. Each rank returns the sum of cross-entropies over the whole vocabulary. The
// backward pass gives only this shard's term of the gradient of x; the caller must sum the terms
// over the shards.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const VocabularyShard& shard,
                                const LogitOptions& options = {},
                                int64_t logits_bytes = kDefaultLogitsBytes);

// Returns the number of tokens per block of linear_cross_entropy(): at most as many as have logits
// that fit into logits_bytes, but at least one. All blocks of the `tokens` tokens get about equal
// sizes. vocabulary: number of logits per token; for a sharded vocabulary,
// VocabularyShard::largest. type: of the logits.
int64_t linear_cross_entropy_block_tokens(int64_t tokens, int64_t vocabulary, at::ScalarType type,
                                          int64_t logits_bytes = kDefaultLogitsBytes);

// Returns whether linear_cross_entropy(), if the weight requires a gradient, holds the logits of
// all tokens at once, even if they take more than logits_bytes. The gradient of the logits is then
// kept until the backward pass, which computes the weight gradient from it. False for fp32 and
// fp64. For bf16, true if the logits of all tokens plus the weight gradient in bf16 take no more
// memory than the logits of one block plus the weight gradient in fp32; this is so if there are few
// tokens relative to the hidden size. vocabulary, type: as for linear_cross_entropy_block_tokens().
bool linear_cross_entropy_keeps_logits(int64_t tokens, int64_t hidden, int64_t vocabulary,
                                       at::ScalarType type,
                                       int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
