// Attention to virtual tokens (see ops::VirtualTokens): a further part of the keys, which all ranks
// hold and which all documents see.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/attention.h"

namespace colossal::ops {

// Returns the positions shifted by `count` virtual tokens.
std::vector<Range> behind_virtual_tokens(const std::vector<Range>& positions, int64_t count);

// query: [batch, heads, queries, head_size], at these positions of the sequences, counted without
// virtual tokens.
struct VirtualTokenQueries {
  at::Tensor query;
  std::vector<Range> positions;
  // [batch, whole sequence] int64: the document of each position. Undefined: each sequence is one
  // document.
  at::Tensor documents{};
};

// Merges the attention of the queries to the virtual tokens into the result of their other keys.
// Not differentiable.
void attend_virtual_tokens(const VirtualTokenQueries& queries, const VirtualTokens& tokens,
                           const AttentionRule& rule, const AttentionResult& result);

// Returns the gradients of the virtual tokens from these queries alone, in the accumulation type,
// given the result over all keys; adds the queries' gradient to query_gradient. If several ranks
// hold queries, sum their results.
VirtualTokens attend_virtual_tokens_backward(const VirtualTokenQueries& queries,
                                             const VirtualTokens& tokens, const AttentionRule& rule,
                                             const AttentionResult& result,
                                             const at::Tensor& output_gradient,
                                             const at::Tensor& query_gradient);

// attention() with options.virtual_tokens. Differentiable.
at::Tensor attention_behind_virtual_tokens(const at::Tensor& query, const at::Tensor& key,
                                           const at::Tensor& value,
                                           const AttentionOptions& options);

}  // namespace colossal::ops
