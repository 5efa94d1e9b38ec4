// Attention on the CPU by blocks of queries and keys, forward and backward, in bf16, fp32 and fp64.
//
// T. Dao, "FlashAttention-2", 2023: scores exist for one block at a time; the forward keeps a
// running softmax, the backward recomputes probabilities from its logarithm. Each (sample, key
// head) is one piece of work of one thread, in a fixed order: the same bits for any number of
// threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/attention.h"
#include "colossal/ops/bf16_block.h"

namespace colossal::ops {

struct FlashAttention {
  AttentionPart part;  // the last dim of queries, keys and values contiguous
  AttentionRule rule;
  // Whether the result, and the query gradient, already hold those of other keys, and get these
  // added.
  bool accumulate = false;
  // How bf16 operands are multiplied; null: widened to fp32.
  Bf16Product bf16_product = bf16_block_product();
};

// Overwrites the result, or adds to it. Its tensors may be views with a contiguous last dim
// (logsumexp: any view). logsumexp is in the type of the sums (fp32, fp64 for fp64), the output in
// any type.
void flash_attention_forward(const FlashAttention& problem, const AttentionResult& result);

// Overwrites the gradients of keys and values; overwrites that of queries or adds to it.
void flash_attention_backward(const FlashAttention& problem, const AttentionResult& result,
                              const at::Tensor& output_gradient,
                              const AttentionGradients& gradients);

// For a problem on meta: allocates and releases what the kernel would for its threads, so that dry
// runs count it.
void allocate_flash_scratch(const FlashAttention& problem, bool backward);

}  // namespace colossal::ops
