// The paged KV cache of serving (W. Kwon et al. 2023, "PagedAttention"): keys and values of many
// sequences are stored in pages of one pool. A forward pass has batch size 1: its row contains
// tokens of several sequences. The caller assigns pages to sequences, calls begin_step(), and runs
// the model with the store as StepServices::key_values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/key_value_store.h"
#include "colossal/ops/attention/paged_attention.h"
#include "colossal/ops/device_table.h"

namespace colossal::nn {

// Consecutive tokens of one sequence that a forward pass computes.
struct PagedChunk {
  // Positions of the tokens in the sequence. Keys and values of all earlier positions must be in
  // the pages already.
  Range positions;
  // Indices of the sequence's pages in the pool. pages[i] stores the positions [i * page_size, (i +
  // 1) * page_size); there must be pages for all positions before positions.end.
  std::vector<int64_t> pages;
  // If true, the attention of each token is computed separately, as in a chunk of one token (see
  // PagedKeyValueOptions::each_token_alone).
  bool alone = false;
  bool operator==(const PagedChunk&) const = default;
};

struct PagedKeyValueOptions {
  int64_t layers = 0;      // number of attention layers
  int64_t pages = 0;       // number of pages in the pool, per layer
  int64_t page_size = 16;  // positions per page, a multiple of 16
  // Stores keys and values in int8, with one scale per head and token. All tokens attend to the
  // rounded keys and values, including the tokens of the same pass.
  bool int8 = false;
  // If true, the attention of each token is computed separately; a token's result then has the same
  // bits however its sequence is divided into chunks. If false, the attention of the tokens of a
  // chunk is computed in one call, which is faster, except in chunks with PagedChunk::alone.
  bool each_token_alone = false;
};

class PagedKeyValueStore : public KeyValueStore {
 public:
  // A layer's pages are allocated, uninitialized, in the layer's first attend(). In host memory,
  // only pages that were written take physical memory.
  explicit PagedKeyValueStore(const PagedKeyValueOptions& options);

  // Begins a step: sets the tokens of the forward passes until the next call of begin_step(). These
  // are the tokens of `chunks`, one chunk after the other. Without each_token_alone, chunks of one
  // token and chunks with `alone` must come before all other chunks; else InternalError. Chunks may
  // share pages that store earlier positions only, for example a common prefix; no two chunks may
  // have new tokens in the same page.
  void begin_step(const std::vector<PagedChunk>& chunks);
  // Copies page `from` to page `to` in all layers.
  void copy_page(int64_t from, int64_t to);

  // Writes the keys and values into the layer's pages, then returns the attention of the queries,
  // [1, heads, tokens, value_size]; see KeyValueStore::attend(). queries [1, heads, tokens,
  // head_size], keys [1, kv_heads, tokens, head_size], values [1, kv_heads, tokens, value_size]: of
  // the tokens of begin_step(), in their order; InternalError if their number differs.
  // rows_with_virtual_tokens: its ranges [begin, begin + count) are indices of these tokens. All
  // tokens of a chunk whose attention is computed in one call must have the same virtual tokens:
  // those of the chunk's first token are used.
  at::Tensor attend(int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                    const at::Tensor& values, const ops::AttentionOptions& options,
                    const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) override;

 private:
  // A chunk whose attention is computed in one call.
  struct JointChunk {
    int64_t row = 0;         // index of the chunk's first token among the step's tokens
    Range positions;         // PagedChunk::positions
    ops::DeviceTable pages;  // PagedChunk::pages, int64
  };

  // Allocates the pages of a layer whose keys and values are like these in type and sizes.
  ops::KeyValuePages make_pages(const at::Tensor& keys, const at::Tensor& values) const;
  // Write the step's tokens into the pages of a layer: keys and values, or the scales of either.
  void write(const ops::KeyValuePages& layer, const at::Tensor& keys, const at::Tensor& values);
  void write_scales(const at::Tensor& layer, const at::Tensor& scales);
  // Computes the attention of the tokens of alone_. rows: their queries, [tokens, heads,
  // head_size]. Returns [tokens, heads, value_size].
  at::Tensor attend_alone(const ops::KeyValuePages& layer, const at::Tensor& rows,
                          const ops::AttentionOptions& options,
                          const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) const;
  // Computes the attention of a chunk. queries, keys, values: of all tokens of the step, as for
  // attend(). Returns [tokens of the chunk, heads, value_size].
  at::Tensor attend_together(const ops::KeyValuePages& layer, const JointChunk& chunk,
                             const at::Tensor& queries, const at::Tensor& keys,
                             const at::Tensor& values, const ops::AttentionOptions& options) const;

  PagedKeyValueOptions options_;
  std::vector<ops::KeyValuePages> layers_;
  // For each token of the step: its page, and its index within the page. Int64.
  ops::DeviceTable page_of_token_, slot_of_token_;
  // The leading tokens whose attention is computed separately.
  struct TokensAlone {
    int64_t count = 0;
    ops::DeviceTable tables, sequences, positions;  // as in ops::PagedTokens
    int64_t longest = 0;
    ops::PagedTokens on(const at::Device& device) const {
      return {tables.on(device), sequences.on(device), positions.on(device), longest};
    }
  };
  TokensAlone alone_;
  std::vector<JointChunk> together_;
};

}  // namespace colossal::nn
