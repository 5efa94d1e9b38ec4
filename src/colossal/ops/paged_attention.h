// Attention of tokens of many sequences, each token to the keys and values of its own sequence.
// Keys and values are stored in pages of a common pool (W. Kwon et al., "PagedAttention", 2023).
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/attention.h"

namespace colossal::ops {

// The pages of a KV cache. keys: [pages, kv_heads, head_size, page_size]. values: [pages, kv_heads,
// page_size, value_size]. page_size: positions per page, a multiple of 16.
struct KeyValuePages {
  at::Tensor keys, values;  // of the queries' type, or int8
  // For int8: the scale of each key and of each value, [pages, kv_heads, page_size] fp32.
  // Undefined: keys and values are not quantized.
  at::Tensor key_scales, value_scales;
};

// Writes keys [kv_heads, tokens, head_size] and values [kv_heads, tokens, value_size], of the
// pages' type and of any strides, into the pages. Token i goes to position place_of_token[i] of
// page page_of_token[i]; both are int64 [tokens] on the host. Does not write scales. Throws
// InternalError if the numbers of tokens or the types do not match.
void write_to_pages(const KeyValuePages& pages, const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& page_of_token, const at::Tensor& place_of_token);

// Numbers quantized to int8. Each row along the last dim has one scale, with which the row's
// largest magnitude becomes 127.
struct ScaledRows {
  at::Tensor codes;   // int8, in the numbers' shape
  at::Tensor scales;  // fp32, in the numbers' shape without the last dim

  static ScaledRows of(const at::Tensor& numbers);  // quantizes
  at::Tensor numbers(at::ScalarType type) const;    // dequantizes
};

// The sequence of each token, and the token's position in it. All tensors are int64 on the host.
struct PagedTokens {
  at::Tensor tables;     // [sequences, pages of the longest]: each sequence's pages, in order
  at::Tensor sequences;  // [tokens]: the token's row of `tables`
  at::Tensor positions;  // [tokens]
};

// query: [tokens, heads, head_size], contiguous along the last dim. A token sees the keys of its
// sequence up to its own key, which must already be in the pages; if options.window is not 0, only
// the last options.window of these. Returns output [tokens, heads, value_size] in the queries'
// type, and logsumexp [tokens, heads] in the accumulation type. A token's result depends neither on
// the other tokens nor on the number of threads. options: must be causal, without documents,
// prefixes and dropout; virtual_tokens is ignored. Throws InternalError for other options, or if
// the numbers of heads or the page size do not match.
AttentionResult paged_attention(const at::Tensor& query, const KeyValuePages& pages,
                                const PagedTokens& tokens, const AttentionOptions& options);

}  // namespace colossal::ops
