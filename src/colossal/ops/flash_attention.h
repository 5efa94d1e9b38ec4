// Attention on the CPU by blocks of queries and keys, forward and backward, in bf16, fp32 and fp64.
//
// T. Dao, "FlashAttention-2", 2023: scores exist for one block at a time. The forward pass updates
// the softmax block by block; the backward pass computes the probabilities again from the
// logsumexp. A pair (sample, key head) is computed by one thread, in a fixed order, so results are
// bit-identical for any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/attention.h"
#include "colossal/ops/bf16_block.h"

namespace colossal::ops {

struct FlashAttention {
  AttentionPart part;  // query, key and value must be contiguous along the last dim
  AttentionRule rule;
  // As in attend() and attend_backward(). Forward: merges into the result of earlier keys instead
  // of overwriting it. Backward: adds to the query gradient instead of overwriting it.
  bool accumulate = false;
  // Kernel for products of bf16 operands. Null: bf16 operands are converted to fp32 first.
  Bf16Product bf16_product = bf16_block_product();
};

// Overwrites `result`, or merges into it if problem.accumulate. result.output: of any type,
// contiguous along the last dim. result.logsumexp: in the accumulation type (fp32; fp64 for fp64),
// with any strides.
void flash_attention_forward(const FlashAttention& problem, const AttentionResult& result);

// Overwrites the gradients of keys and values; overwrites the gradient of queries, or adds to it if
// problem.accumulate. result: over all keys.
void flash_attention_backward(const FlashAttention& problem, const AttentionResult& result,
                              const at::Tensor& output_gradient,
                              const AttentionGradients& gradients);

// For a problem on meta: allocates and frees as much scratch memory as the kernel would, so that
// dry runs count it.
void allocate_flash_scratch(const FlashAttention& problem, bool backward);

}  // namespace colossal::ops
