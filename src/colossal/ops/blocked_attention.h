// Attention over blocks of query rows on the CPU, for what LibTorch's flash attention cannot do.
// Each (sample, key head) is one piece of work; its scores exist for one block of rows at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/base/random.h"

namespace colossal::ops {

// Bytes of scores held at once by each thread, if a row is not longer (backward: twice that).
inline constexpr int64_t kAttentionBlockBytes = 512 * 1024;

struct BlockedAttention {
  at::Tensor query, key, value;  // as attention() takes them
  bool causal;
  double scale;
  double dropout;
  RandomKey random_key;
  at::IntArrayRef sample_ids;
  int64_t head_begin;
};

// output [batch, heads, sequence, value_size] and logsumexp [batch, heads, sequence] (fp32, fp64
// for fp64) are written; they may be any views with a contiguous last dim (logsumexp: any).
void blocked_attention_forward(const BlockedAttention& problem, const at::Tensor& output,
                               const at::Tensor& logsumexp);

// The three gradients are written.
void blocked_attention_backward(const BlockedAttention& problem, const at::Tensor& output,
                                const at::Tensor& logsumexp, const at::Tensor& output_gradient,
                                const at::Tensor& query_gradient, const at::Tensor& key_gradient,
                                const at::Tensor& value_gradient);

}  // namespace colossal::ops
