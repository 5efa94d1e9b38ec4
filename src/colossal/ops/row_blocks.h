// Lookups and losses with a table of which one block of rows is here at a time. Each block has an
// autograd node of its own for its gradient, the last block's first, so that a gradient can leave
// before the next one is made.
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

// Returns the rows [.., features] of tokens [..] int64, zeros for those that no block has.
at::Tensor look_up(const ForEachBlock& table, const at::Tensor& tokens);

// For tables of whose blocks each rank has a part: brings blocks together, and gives back their
// gradients. Without autograd. All ranks call it alike, once forward and once backward for each
// block, counted from 0. It must outlive the backward pass.
class BlockRanks {
 public:
  virtual ~BlockRanks() = default;
  // The global rows of a whole block, run after run.
  virtual std::vector<Range> rows(size_t block) const = 0;
  virtual at::Tensor gather(const at::Tensor& part, size_t block) const = 0;
  // Takes the gradient of the whole block, and returns that of this rank's part, summed over the
  // ranks.
  virtual at::Tensor give_back(const at::Tensor& gradient, at::IntArrayRef sizes,
                               size_t block) const = 0;
};

// Returns log-probabilities [tokens] of labels [tokens], 0 where they are ignored, in fp32 (fp64
// for fp64), under the softmax of the logits x table^T. Differentiable in x, table and bias, token
// by token. x, labels, options and logits_bytes: as for linear_cross_entropy() of the whole table,
// or where `combine` is given of this rank's part of it (VocabularyShard::combine). vocabulary:
// rows over all ranks. The softmax statistics of the blocks are combined as they come; the backward
// pass makes each block's logits anew: four products instead of three, and what is kept for it is x
// and three numbers a token. Bias and low-rank `up` are those of all rows that this rank visits,
// from global row `bias_begin` on; z and up have gradients too.
at::Tensor linear_log_probabilities(const at::Tensor& x, const ForEachBlock& table,
                                    const at::Tensor& labels, int64_t vocabulary,
                                    const std::function<void(const at::Tensor&)>& combine = {},
                                    const BlockRanks* ranks = nullptr,
                                    const LogitOptions& options = {}, int64_t bias_begin = 0,
                                    int64_t logits_bytes = kDefaultLogitsBytes);

// Returns the sum of the cross-entropies, made the same way: linear_cross_entropy() for a table in
// blocks.
at::Tensor linear_cross_entropy(const at::Tensor& x, const ForEachBlock& table,
                                const at::Tensor& labels, int64_t vocabulary,
                                const std::function<void(const at::Tensor&)>& combine = {},
                                const BlockRanks* ranks = nullptr, const LogitOptions& options = {},
                                int64_t bias_begin = 0, int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
