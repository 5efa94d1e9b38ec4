// Attention to virtual tokens (see VirtualTokens in attention_rule.h). They are one more part of
// the keys, which all ranks hold and all documents see.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/attention.h"

namespace colossal::ops {

// Returns the positions, each increased by `count`, the number of virtual tokens.
std::vector<Range> behind_virtual_tokens(const std::vector<Range>& positions, int64_t count);

// Queries that see virtual tokens. query: [batch, heads, queries, head_size]. positions: of the
// queries in their sequences, counted without virtual tokens.
struct VirtualTokenQueries {
  at::Tensor query;
  std::vector<Range> positions;
  // [batch, sequence] int64: the document of each position of the whole sequence. Undefined: each
  // sequence is one document.
  at::Tensor documents{};
};

// Computes the queries' attention to the virtual tokens and merges it into `result`, which holds
// their attention to all other keys. Not differentiable.
void attend_virtual_tokens(const VirtualTokenQueries& queries, const VirtualTokens& tokens,
                           const AttentionRule& rule, const AttentionResult& result);

// Returns the gradients of the virtual tokens' keys and values, in the accumulation type, as far as
// they come from these queries. Adds the gradient of the queries to query_gradient. result: over
// all keys. output_gradient: of result.output. If several ranks hold queries of a sequence, the
// caller must sum the gradients that they get.
VirtualTokens attend_virtual_tokens_backward(const VirtualTokenQueries& queries,
                                             const VirtualTokens& tokens, const AttentionRule& rule,
                                             const AttentionResult& result,
                                             const at::Tensor& output_gradient,
                                             const at::Tensor& query_gradient);

// Computes attention() with options.virtual_tokens, which must not be empty. Differentiable. Throws
// InternalError unless it is causal self-attention without prefixes.
at::Tensor attention_with_virtual_tokens(const at::Tensor& query, const at::Tensor& key,
                                         const at::Tensor& value, const AttentionOptions& options);

}  // namespace colossal::ops
