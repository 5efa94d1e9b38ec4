// A table of which a block of rows is here at a time: what an embedding and the end of a language
// model do with it. Each block's gradient is made by a node of autograd's of its own, the last
// block's first, so that it can leave before the next one is made.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::ops {

// Calls visit(rows, begin) for each block, in order: rows [rows of the block, features] are those
// from global row `begin` on, and are here until it returns.
using VisitRows = std::function<void(const at::Tensor& rows, int64_t begin)>;
using ForEachBlock = std::function<void(const VisitRows& visit)>;

// Rows [.., features] of tokens [..] int64, zeros for those that no block has.
at::Tensor look_up(const ForEachBlock& table, const at::Tensor& tokens);

// Where what is visited of a block is a part of it only: how ranks come to all of it, and give back
// its gradient. Without autograd; all ranks call alike, for each block, counted from 0, once
// forward and once backward. It must outlive the backward pass.
class BlockRanks {
 public:
  virtual ~BlockRanks() = default;
  // The global rows of all of it, run after run.
  virtual std::vector<Range> rows(size_t block) const = 0;
  virtual at::Tensor gather(const at::Tensor& part, size_t block) const = 0;
  // Takes the gradient of the whole block, and returns that of this rank's part, summed over the
  // ranks.
  virtual at::Tensor give_back(const at::Tensor& gradient, at::IntArrayRef sizes,
                               size_t block) const = 0;
};

// Log-probabilities [tokens] of labels [tokens], 0 where they are ignored, in fp32 (fp64 for fp64),
// under the softmax of the logits x table^T. Differentiable in x, table and bias; each token's
// gradient counts. x, labels, options and logits_bytes: as for linear_cross_entropy() of the whole
// table, or where `combine` is given of this rank's part of it (VocabularyShard::combine).
// vocabulary: rows over all ranks. The softmax statistics of the blocks are combined as they come;
// the backward pass makes each block's logits anew: four products instead of three, and what is
// kept for it is x and three numbers a token. The bias is that of all rows that this rank visits,
// from global row `bias_begin` on.
at::Tensor linear_log_probabilities(const at::Tensor& x, const ForEachBlock& table,
                                    const at::Tensor& labels, int64_t vocabulary,
                                    const std::function<void(const at::Tensor&)>& combine = {},
                                    const BlockRanks* ranks = nullptr,
                                    const LogitOptions& options = {}, int64_t bias_begin = 0,
                                    int64_t logits_bytes = kDefaultLogitsBytes);

// The sum of the cross-entropies, made the same way: linear_cross_entropy() of a table that is here
// by blocks.
at::Tensor linear_cross_entropy(const at::Tensor& x, const ForEachBlock& table,
                                const at::Tensor& labels, int64_t vocabulary,
                                const std::function<void(const at::Tensor&)>& combine = {},
                                const BlockRanks* ranks = nullptr, const LogitOptions& options = {},
                                int64_t bias_begin = 0, int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
