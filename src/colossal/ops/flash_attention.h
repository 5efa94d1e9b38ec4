// Attention on the CPU by blocks of queries and keys, forward and backward, in bf16, fp32 and fp64.
//
// T. Dao, "FlashAttention-2", 2023: scores exist for one block at a time; the forward keeps a
// running softmax, the backward recomputes probabilities from its logarithm. Each (sample, key
// head) is one piece of work of one thread, in a fixed order: the same bits for any number of
// threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/base/random.h"
#include "colossal/ops/bf16_block.h"

namespace colossal::ops {

struct FlashAttention {
  at::Tensor query, key, value;  // as attention() takes them; the last dim contiguous
  at::Tensor documents;          // [batch, key_sequence] int64; undefined: one document
  bool causal;
  double scale;
  double dropout;
  RandomKey random_key;
  at::IntArrayRef sample_ids;
  int64_t head_begin;
  // How bf16 operands are multiplied; null: widened to fp32.
  Bf16Product bf16_product = bf16_block_product();
};

// output [batch, heads, sequence, value_size] and logsumexp [batch, heads, sequence] (fp32, fp64
// for fp64) are written; they may be any views with a contiguous last dim (logsumexp: any).
void flash_attention_forward(const FlashAttention& problem, const at::Tensor& output,
                             const at::Tensor& logsumexp);

// The three gradients are written.
void flash_attention_backward(const FlashAttention& problem, const at::Tensor& output,
                              const at::Tensor& logsumexp, const at::Tensor& output_gradient,
                              const at::Tensor& query_gradient, const at::Tensor& key_gradient,
                              const at::Tensor& value_gradient);

}  // namespace colossal::ops
