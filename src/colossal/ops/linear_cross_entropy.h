// The vocabulary projection, softmax and cross-entropy of a language model, in one operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace colossal::ops {

inline constexpr int64_t kIgnoredLabel = -100;
inline constexpr int64_t kDefaultLogitsBytes = int64_t{64} << 20;

// How logits are computed: soft_cap * tanh(scale * (x weight^T + z up^T + bias) / soft_cap). By
// default they are x weight^T.
struct LogitOptions {
  at::Tensor bias;  // [rows of `weight`], of x's type; undefined: no bias
  double scale = 1;
  double soft_cap = 0;  // 0: no cap
  // Low-rank adapter. z: [.., rank], the result of its down-projection of x; up: [rows of `weight`,
  // rank]. Both undefined: no adapter.
  at::Tensor z{}, up{};
};

// Returns the logits, [.., rows of `weight`]. products: x weight^T.
at::Tensor logits_from_products(const at::Tensor& products, const LogitOptions& options);

// Returns the sum of the tokens' cross-entropies, a scalar in fp32 (fp64 for fp64); tokens with
// kIgnoredLabel add nothing. Softmax statistics are in the same type. Differentiable in x, weight
// and bias; the backward pass can run only once. Throws InternalError for sizes or types that do
// not match, for a low-rank adapter and, if the labels are on the CPU, for a label outside the
// vocabulary.
//   x       [tokens, hidden]
//   weight  [vocabulary, hidden], of x's type
//   labels  [tokens] int64, in [0, vocabulary) or kIgnoredLabel
//   logits_bytes  the most bytes of logits that are held at once; not a limit if
//                 linear_cross_entropy_keeps_logits()
// Tokens are processed in blocks of linear_cross_entropy_rows() tokens. A block's logits are
// overwritten by their gradient, from which the forward pass computes the gradients of x and
// weight: three matrix products in all, none of them repeated (P. Hsu et al., "Liger Kernel",
// 2024). The backward pass only multiplies these gradients by the gradient of the sum. The weight
// gradient is accumulated over blocks in fp32 (fp64). If linear_cross_entropy_keeps_logits() is
// true, the backward pass computes the weight gradient instead.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const LogitOptions& options = {},
                                int64_t logits_bytes = kDefaultLogitsBytes);

// One rank's shard of a vocabulary, and the reductions over all shards. Logits are not communicated
// (M. Shoeybi et al., "Megatron-LM", 2019, section 3).
struct VocabularyShard {
  int64_t begin = 0;       // global index of this shard's first row
  int64_t largest = 0;     // rows of the largest shard: all ranks compute the block size from it
  int64_t vocabulary = 0;  // rows of all shards
  // Receives the softmax statistics of tokens over this shard and replaces them, in place, by those
  // over the whole vocabulary. statistics: [3, tokens] in fp32 (fp64 for fp64). Its rows are: the
  // largest logit; the sum of exp(logit - largest logit); the label's logit, or 0 if the label is
  // in another shard. Called once for each block of tokens.
  std::function<void(const at::Tensor& statistics)> combine;
  std::function<void(const at::Tensor& numbers)> sum;  // sums over the shards, in place
};

// The same for a sharded vocabulary: weight and options.bias are this rank's shard; labels are
// global. Each rank returns the sum over the whole vocabulary. The gradient of x that backward
// computes is this shard's term: the caller must sum it over the shards.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& labels, const VocabularyShard& shard,
                                const LogitOptions& options = {},
                                int64_t logits_bytes = kDefaultLogitsBytes);

// Returns the number of tokens per block: at least one, and no more than have logits that fit into
// logits_bytes. Blocks are of about equal sizes. vocabulary: rows of the largest shard.
int64_t linear_cross_entropy_rows(int64_t tokens, int64_t vocabulary, at::ScalarType type,
                                  int64_t logits_bytes = kDefaultLogitsBytes);

// Returns whether the logits of all tokens are held at once, whatever logits_bytes is, and their
// gradient is kept until the backward pass, which computes the weight gradient from it. True for
// bf16 if this takes no more memory than the logits of one block plus the weight gradient in fp32,
// that is, if there are few tokens relative to the hidden size.
bool linear_cross_entropy_keeps_logits(int64_t tokens, int64_t hidden, int64_t vocabulary,
                                       at::ScalarType type,
                                       int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
