// Attention with a paged KV cache, for serving (W. Kwon et al., "PagedAttention", 2023). A batch
// has tokens of many sequences. Each token attends to the keys and values of its own sequence,
// which are stored in pages of a common pool.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/attention/attention.h"

namespace colossal::ops {

// The pages of the KV cache of one layer. page_size is the number of positions per page, a multiple
// of 16.
struct KeyValuePages {
  // keys: [pages, kv_heads, head_size, page_size]. values: [pages, kv_heads, page_size,
  // value_size]. Both are of the queries' type, or int8.
  at::Tensor keys, values;
  // [pages, kv_heads, page_size] fp32: for int8, the factor of each key and of each value.
  // Undefined: keys and values are not quantized.
  at::Tensor key_scales, value_scales;
};

// Writes the keys and values of tokens into the pages. keys: [kv_heads, tokens, head_size]; values:
// [kv_heads, tokens, value_size]; both of the pages' type and of any strides. For int8 pages, the
// caller first quantizes keys and values with ScaledRows (below), passes their codes as `keys` and
// `values`, and itself writes their scales into pages.key_scales and pages.value_scales. Token i is
// written to position place_of_token[i] of page page_of_token[i]; both are int64 [tokens], on
// the device of the pages or on the host. Throws InternalError if the numbers of tokens or the
// types do not match.
void write_to_pages(const KeyValuePages& pages, const at::Tensor& keys, const at::Tensor& values,
                    const at::Tensor& page_of_token, const at::Tensor& place_of_token);

// A tensor quantized to int8: element = code * scale. Each row along the last dim has one scale,
// which is the row's largest magnitude divided by 127. Used for keys and values in int8 pages.
struct ScaledRows {
  at::Tensor codes;   // int8, in the tensor's shape
  at::Tensor scales;  // fp32, in the tensor's shape without the last dim

  // Quantizes `numbers`, of any floating type.
  static ScaledRows of(const at::Tensor& numbers);
  // Returns the dequantized tensor, rounded to `type`.
  at::Tensor numbers(at::ScalarType type) const;
};

// Where the tokens of a batch are in their sequences. All tensors are int64, on the device of the
// queries or on the host.
struct PagedTokens {
  // The page tables, [sequences, pages of the longest sequence]: row i lists the pages of sequence
  // i; page_size consecutive positions are in each page. Entries after the last page are not read.
  at::Tensor tables;
  at::Tensor sequences;  // [tokens]: index of each token's sequence, a row of `tables`
  at::Tensor positions;  // [tokens]: each token's position in its sequence
  int64_t longest = 0;   // a number of positions that is above all of `positions`
};

// Computes the attention of each token to the keys of its sequence, from position 0 up to the
// token's own position. If options.window is not 0, a token sees only the last options.window of
// these keys. The token's own key and value must already be in the pages. Returns the output
// [tokens, heads, value_size] in the queries' type, and logsumexp [tokens, heads] in fp32 (fp64 for
// fp64). A token's result depends neither on the other tokens nor on the number of threads.
//   query    [tokens, heads, head_size], contiguous along the last dim; heads is a multiple of
//            kv_heads
//   options  must be causal, without documents, without prefix_lengths and without dropout;
//            virtual_tokens is ignored: a sequence's virtual tokens are not in the pages, and the
//            caller adds their part of the attention
// Not differentiable. Throws InternalError for other options, if heads is not a multiple of
// kv_heads, or if the page size is not a multiple of 16.
AttentionResult paged_attention(const at::Tensor& query, const KeyValuePages& pages,
                                const PagedTokens& tokens, const AttentionOptions& options);

}  // namespace colossal::ops
