// Keys and values of many sequences in pages of one pool, for forward passes over rows of tokens
// that belong to several sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/key_value_store.h"
#include "colossal/ops/paged_attention.h"

namespace colossal::nn {

// Consecutive tokens of a sequence that a forward pass works on.
struct PagedChunk {
  Range positions;             // in the sequence; the keys and values before them are in the pages
  std::vector<int64_t> pages;  // of the sequence, from its first position on
  bool alone = false;          // each token attends by itself, as the token of a chunk of one does
  bool operator==(const PagedChunk&) const = default;
};

struct PagedKeyValueOptions {
  int64_t layers = 0;
  int64_t pages = 0;
  int64_t page_size = 16;
  // Keeps keys and values in int8, with a scale for each head and token. All tokens see the rounded
  // ones, also those of the same pass.
  bool int8 = false;
  // Each token attends by itself, so that its bits do not depend on the chunk that it comes in;
  // else the tokens of a chunk attend together, which is faster.
  bool each_token_alone = false;
};

class PagedKeyValueStore : public KeyValueStore {
 public:
  // Memory is taken as layers first attend, and becomes resident as pages are written.
  explicit PagedKeyValueStore(const PagedKeyValueOptions& options);

  // Says which tokens the next forward passes have, in a batch of one row: those of these chunks,
  // one after the other. Chunks of one token, and those whose tokens attend alone, come first. A
  // page may be in several chunks, but only where nothing is written to it.
  void begin_step(const std::vector<PagedChunk>& chunks);
  // Copies page `from` to page `to` in all layers.
  void copy_page(int64_t from, int64_t to);

  at::Tensor attend(int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                    const at::Tensor& values, const ops::AttentionOptions& options,
                    const std::vector<RowsBehindVirtualTokens>& brought) override;

 private:
  // Chunks that attend together.
  struct Together {
    int64_t row = 0;  // of its first token
    Range positions;
    at::Tensor pages;  // int64
  };

  ops::KeyValuePages make_pages(const at::Tensor& keys, const at::Tensor& values) const;
  void write(const ops::KeyValuePages& layer, const at::Tensor& keys, const at::Tensor& values);
  void write_scales(const at::Tensor& layer, const at::Tensor& scales);
  // rows: [tokens, heads, head_size] of the tokens that attend by themselves.
  at::Tensor attend_alone(const ops::KeyValuePages& layer, const at::Tensor& rows,
                          const ops::AttentionOptions& options,
                          const std::vector<RowsBehindVirtualTokens>& brought) const;
  at::Tensor attend_together(const ops::KeyValuePages& layer, const Together& chunk,
                             const at::Tensor& queries, const at::Tensor& keys,
                             const at::Tensor& values, const ops::AttentionOptions& options) const;

  PagedKeyValueOptions options_;
  std::vector<ops::KeyValuePages> layers_;
  // The page of every token of the step, and its place in that page, on the host and where the
  // pages are.
  at::Tensor page_of_token_, place_of_token_;
  int64_t alone_ = 0;  // how many first tokens attend by themselves
  ops::PagedTokens tokens_alone_;
  std::vector<Together> together_;
};

}  // namespace colossal::nn
