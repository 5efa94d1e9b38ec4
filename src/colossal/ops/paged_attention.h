// Attention of tokens of many sequences, each to the keys and values of its own sequence, which are
// stored in pages of a common pool (W. Kwon et al., "PagedAttention", 2023).
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/attention.h"

namespace colossal::ops {

// KV cache pages: keys [pages, kv_heads, head_size, page_size], values [pages, kv_heads, page_size,
// value_size]; page_size is a multiple of 16.
struct KeyValuePages {
  at::Tensor keys, values;  // of the queries' type, or int8
  // For int8: scales of each position's keys and values, [pages, kv_heads, page_size] fp32.
  // Undefined: keys and values are not quantized.
  at::Tensor key_scales, value_scales;
};

// Writes keys [kv_heads, tokens, head_size] and values [kv_heads, tokens, value_size], of the
// pages' type and any strides, into the pages: token i at position place_of_token[i] of page
// page_of_token[i], both int64 [tokens] on the host.
void write_to_pages(const KeyValuePages& pages, const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& page_of_token, const at::Tensor& place_of_token);

// Numbers quantized to int8 with one scale for each row of the last dim, chosen so that a row's
// largest magnitude becomes 127.
struct ScaledRows {
  at::Tensor codes;   // int8, in the numbers' shape
  at::Tensor scales;  // fp32, in the numbers' shape without the last dim

  static ScaledRows of(const at::Tensor& numbers);
  at::Tensor numbers(at::ScalarType type) const;
};

// The sequence of each token, and its position in that sequence. All tensors are int64 on the host.
struct PagedTokens {
  at::Tensor tables;  // [sequences, most pages]: block table, the pages of each sequence in order
  at::Tensor sequences;  // [tokens]: row of `tables`
  at::Tensor positions;  // [tokens]
};

// query: [tokens, heads, head_size], contiguous along the last dim. A token sees the keys of its
// sequence up to its own position, limited by options.window. Returns the output [tokens, heads,
// value_size] in the queries' type and the logsumexp [tokens, heads] in the accumulation type. A
// token's result depends neither on other tokens nor on the number of threads. options: causal,
// without documents, prefixes and dropout; virtual tokens are ignored.
// Throws InternalError for other options and for shapes that do not match.
AttentionResult paged_attention(const at::Tensor& query, const KeyValuePages& pages,
                                const PagedTokens& tokens, const AttentionOptions& options);

}  // namespace colossal::ops
