// Attention to virtual tokens, the trained keys and values of a prefix (VirtualTokens in
// attention_rule.h). Models call attention(), which calls attention_with_virtual_tokens(). The
// other functions are for ranks that compute attention in parts (attend() in attention.h): all
// ranks hold the virtual tokens, and queries of all documents see them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/attention.h"

namespace colossal::ops {

// Returns `positions` shifted by `count`, the number of virtual tokens: the positions of tokens
// that come after the virtual tokens.
std::vector<Range> behind_virtual_tokens(const std::vector<Range>& positions, int64_t count);

// Queries that see virtual tokens.
struct VirtualTokenQueries {
  at::Tensor query;              // [batch, heads, queries, head_size]
  std::vector<Range> positions;  // of the queries in their sequences, without virtual tokens
  // [batch, sequence] int64: the document number of each token of the whole sequence. The virtual
  // tokens come directly before each document, so documents determine the distance from a query to
  // the virtual tokens, for window and ALiBi. Undefined: each sequence is one document.
  at::Tensor documents{};
};

// Computes the attention of the queries to the virtual tokens, and merges it into `result`, which
// holds the attention of the queries to all other keys. Not differentiable.
void attend_virtual_tokens(const VirtualTokenQueries& queries, const VirtualTokens& tokens,
                           const AttentionRule& rule, const AttentionResult& result);

// Returns the gradients of tokens.keys and tokens.values, summed over these queries, in fp64 for
// fp64, otherwise in fp32. Adds the gradient of queries.query to query_gradient.
//   result           the attention of the queries to all keys, after attend_virtual_tokens()
//   output_gradient  of result.output
// If several ranks hold queries of a sequence, the caller must sum the returned gradients over
// these ranks.
VirtualTokens attend_virtual_tokens_backward(const VirtualTokenQueries& queries,
                                             const VirtualTokens& tokens, const AttentionRule& rule,
                                             const AttentionResult& result,
                                             const at::Tensor& output_gradient,
                                             const at::Tensor& query_gradient);

// Computes attention() for options that have virtual tokens; parameters and result are those of
// attention(). Differentiable. Throws InternalError if the attention is not causal, has
// prefix_lengths or query_documents, or has more queries than keys.
at::Tensor attention_with_virtual_tokens(const at::Tensor& query, const at::Tensor& key,
                                         const at::Tensor& value, const AttentionOptions& options);

}  // namespace colossal::ops
