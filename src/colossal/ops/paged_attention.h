// Attention of tokens of many sequences, each to the keys and values of its own sequence, which lie
// in pages of a common pool (W. Kwon et al., "PagedAttention", 2023).
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/attention.h"

namespace colossal::ops {

// Keys and values in pages: keys [pages, kv_heads, head_size, page_size], values [pages, kv_heads,
// page_size, value_size]; page_size is a multiple of 16.
struct KeyValuePages {
  at::Tensor keys, values;  // in the queries' type, or int8
  // With int8, the scales of each position's numbers, [pages, kv_heads, page_size] fp32. Undefined:
  // keys and values are not scaled.
  at::Tensor key_scales, value_scales;
};

// Writes keys [kv_heads, tokens, head_size] and values [kv_heads, tokens, value_size], in the
// pages' type and of any strides, into the pages: token i at place place_of_token[i] of page
// page_of_token[i], both int64 on the host.
void write_to_pages(const KeyValuePages& pages, const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& page_of_token, const at::Tensor& place_of_token);

// Numbers rounded to int8 with a scale for each row of the last dim, so that the largest of a row
// is 127 or -127.
struct ScaledRows {
  at::Tensor codes;   // int8, of the numbers' shape
  at::Tensor scales;  // fp32, without the last dim

  static ScaledRows of(const at::Tensor& numbers);
  at::Tensor numbers(at::ScalarType type) const;
};

// Which sequence each token belongs to, and its position there.
struct PagedTokens {
  at::Tensor tables;     // [sequences, most pages] int64, on the host: pages of each, in order
  at::Tensor sequences;  // [tokens] int64, on the host: a row of `tables`
  at::Tensor positions;  // [tokens] int64, on the host
};

// query [tokens, heads, head_size], its last dim contiguous. A token sees the keys of its sequence
// up to its own position, or those of the window that ends there. Returns the output [tokens,
// heads, value_size] in the queries' type, and [tokens, heads] logarithms of the sums of
// exponentials in the type of the sums. What a token gets depends on no other one, nor on the
// number of threads. `options`: causal, without documents, prefixes and dropout; virtual tokens are
// not seen.
AttentionResult paged_attention(const at::Tensor& query, const KeyValuePages& pages,
                                const PagedTokens& tokens, const AttentionOptions& options);

}  // namespace colossal::ops
