// Attention to virtual tokens, see ops::VirtualTokens: another part of the keys, which all ranks
// have and all documents see.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/attention.h"

namespace colossal::ops {

// Where positions of a sequence are behind so many virtual tokens.
std::vector<Range> behind_virtual_tokens(const std::vector<Range>& positions, int64_t count);

// Queries [batch, heads, queries, head_size] of sequences, at these positions.
struct VirtualTokenQueries {
  at::Tensor query;
  std::vector<Range> positions;
  // [batch, whole sequence] int64: the document of each position. Undefined: each sequence is one.
  at::Tensor documents{};
};

// Adds what the queries see of virtual tokens to the result of their other keys. No gradients.
void attend_virtual_tokens(const VirtualTokenQueries& queries, const VirtualTokens& tokens,
                           const AttentionRule& rule, const AttentionResult& result);

// Returns the gradients of virtual tokens by these queries, from the result of all keys, in the
// type of the sums, and adds that of the queries. Ranks with other queries add theirs.
VirtualTokens attend_virtual_tokens_backward(const VirtualTokenQueries& queries,
                                             const VirtualTokens& tokens, const AttentionRule& rule,
                                             const AttentionResult& result,
                                             const at::Tensor& output_gradient,
                                             const at::Tensor& query_gradient);

// attention() with options.virtual_tokens; differentiable.
at::Tensor attention_behind_virtual_tokens(const at::Tensor& query, const at::Tensor& key,
                                           const at::Tensor& value,
                                           const AttentionOptions& options);

}  // namespace colossal::ops
