// Paged KV cache: keys and values of many sequences in pages of one pool. For forward passes over
// one row of tokens that belong to several sequences (W. Kwon et al. 2023, "PagedAttention").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/key_value_store.h"
#include "colossal/ops/paged_attention.h"

namespace colossal::nn {

// Consecutive tokens of a sequence that one forward pass computes.
struct PagedChunk {
  Range positions;  // of the tokens in the sequence; the pages hold all earlier positions
  // The pages of the sequence from position 0 on, at least to positions.end.
  std::vector<int64_t> pages;
  bool alone = false;  // tokens attend one by one, as chunks of one token would
  bool operator==(const PagedChunk&) const = default;
};

struct PagedKeyValueOptions {
  int64_t layers = 0;
  int64_t pages = 0;
  int64_t page_size = 16;
  // Stores keys and values in int8, with one scale per head and token. All tokens attend to the
  // rounded keys and values, including those of the same pass.
  bool int8 = false;
  // If true, tokens attend one by one, so that a token's bits do not depend on its chunk. If false,
  // the tokens of a chunk attend together, which is faster.
  bool each_token_alone = false;
};

class PagedKeyValueStore : public KeyValueStore {
 public:
  // The memory of a layer's pages is allocated when the layer first attends. Of host memory, only
  // pages that were written become resident.
  explicit PagedKeyValueStore(const PagedKeyValueOptions& options);

  // Sets the tokens of the forward passes until the next call: one row with the tokens of `chunks`,
  // one chunk after the other. Chunks of one token and chunks with `alone` must come before the
  // others; else InternalError. Chunks may share a page only if none of their tokens is in it.
  void begin_step(const std::vector<PagedChunk>& chunks);
  // Copies page `from` to page `to` in all layers.
  void copy_page(int64_t from, int64_t to);

  at::Tensor attend(int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                    const at::Tensor& values, const ops::AttentionOptions& options,
                    const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) override;

 private:
  // A chunk whose tokens attend together.
  struct Together {
    int64_t row = 0;  // index of its first token among the step's tokens
    Range positions;
    at::Tensor pages;  // int64
  };

  ops::KeyValuePages make_pages(const at::Tensor& keys, const at::Tensor& values) const;
  void write(const ops::KeyValuePages& layer, const at::Tensor& keys, const at::Tensor& values);
  void write_scales(const at::Tensor& layer, const at::Tensor& scales);
  // rows: queries [tokens, heads, head_size] of the tokens that attend one by one.
  at::Tensor attend_alone(const ops::KeyValuePages& layer, const at::Tensor& rows,
                          const ops::AttentionOptions& options,
                          const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) const;
  at::Tensor attend_together(const ops::KeyValuePages& layer, const Together& chunk,
                             const at::Tensor& queries, const at::Tensor& keys,
                             const at::Tensor& values, const ops::AttentionOptions& options) const;

  PagedKeyValueOptions options_;
  std::vector<ops::KeyValuePages> layers_;
  // The page of each token of the step, and the slot of the token in that page; int64.
  at::Tensor page_of_token_, slot_of_token_;
  int64_t alone_ = 0;  // number of leading tokens that attend one by one
  ops::PagedTokens tokens_alone_;
  std::vector<Together> together_;
};

}  // namespace colossal::nn
