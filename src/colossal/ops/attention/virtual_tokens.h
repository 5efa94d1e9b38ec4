// Attention to virtual tokens, the trained keys and values of a prefix (VirtualTokens in
// attention_rule.h). Models call attention(), which calls attention_with_virtual_tokens(). The
// other functions are for ranks that compute attention in parts (attend() in attention.h): all
// ranks hold the virtual tokens, and queries of all documents see them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/attention/attention.h"

namespace colossal::ops {

// Returns `positions` shifted by `count`, the number of virtual tokens. Virtual tokens are keys at
// positions 0 to count - 1, so the tokens of a sequence come after them. In a sequence with virtual
// tokens, pass shifted positions of queries and keys to attend() and attend_backward(), because the
// dropout mask of a query and a key depends on their positions.
std::vector<Range> behind_virtual_tokens(const std::vector<Range>& positions, int64_t count);

// Queries that see virtual tokens.
struct VirtualTokenQueries {
  at::Tensor query;  // [batch, heads, queries, head_size]
  // Of the queries in their sequences, not shifted: the first token of a sequence has position 0.
  std::vector<Range> positions;
  // [batch, sequence] int64: the document number of each token of the whole sequence. With a window
  // or ALiBi, the distance from a query to the virtual tokens is as if these came directly before
  // the query's document. Undefined: each sequence is one document.
  at::Tensor documents{};
};

// Computes the attention of the queries to the virtual tokens, and merges it into `result`, which
// attend() has filled with the attention of the queries to all other keys. Not differentiable.
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
