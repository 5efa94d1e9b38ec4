// Flash attention on the CPU, forward and backward, in bf16, fp32 and fp64. It implements the
// operators of attention.h; models call attention() there.
//
// T. Dao, "FlashAttention-2", 2023: scores exist for one block of queries and keys at a time. The
// forward pass updates the softmax block by block. The backward pass computes the probabilities
// again from the logsumexp. One thread computes a pair (sample, key head), in a fixed order, so
// results are bit-identical for any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/attention/attention.h"
#include "colossal/ops/product/bf16_block.h"

namespace colossal::ops {

// Arguments of both passes. attention.h defines the types of the members.
struct FlashAttention {
  AttentionPart part;  // query, key and value must be contiguous along the last dim
  AttentionRule rule;
  // Forward: merges the attention to these keys into the result of earlier keys, instead of
  // overwriting it. Backward: adds to the query gradient instead of overwriting it.
  bool accumulate = false;
  // Kernel for products of bf16 operands. Null: bf16 operands are converted to fp32 first.
  Bf16Product bf16_product = bf16_block_product();
};

// Computes the attention, and writes it to `result`, or merges it into `result` if
// problem.accumulate. result.output: in bf16, fp32 or fp64, contiguous along the last dim.
// result.logsumexp: in the accumulation type (fp64 for fp64 queries, else fp32), with any strides.
void flash_attention_forward(const FlashAttention& problem, const AttentionResult& result);

// Computes the gradients of problem.part's query, key and value, and writes them to `gradients`.
// Adds to gradients.query if problem.accumulate; overwrites the two others in any case. result: the
// attention to all keys, not only to those of problem.part. output_gradient: of result.output,
// contiguous along the last dim.
void flash_attention_backward(const FlashAttention& problem, const AttentionResult& result,
                              const at::Tensor& output_gradient,
                              const AttentionGradients& gradients);

// For tensors on meta: allocates and frees as much scratch memory as flash_attention_forward() does
// on the CPU, or with `backward` as much as flash_attention_backward() does. Dry runs count it.
void allocate_flash_scratch(const FlashAttention& problem, bool backward);

}  // namespace colossal::ops
