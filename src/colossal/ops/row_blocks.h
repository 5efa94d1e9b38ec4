// Embedding lookup and loss with a table of which only one block of rows is in memory at a time.
// Each block's gradient is computed by its own autograd node, the last block's first, so that the
// gradient of a block can be released before that of the next is computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::ops {

// Calls visit(rows, begin) for each block of the table, in order. rows: [rows of the block,
// features], the table's rows from global row `begin` on; valid only during the call.
using VisitRows = std::function<void(const at::Tensor& rows, int64_t begin)>;
using ForEachBlock = std::function<void(const VisitRows& visit)>;

// Returns the table's rows of tokens [..] int64, [.., features]; zeros for tokens whose row is in
// no block.
at::Tensor look_up(const ForEachBlock& table, const at::Tensor& tokens);

// Interface for tables whose blocks are sharded over ranks: gathers blocks and reduces their
// gradients. Not recorded by autograd. All ranks must make the same calls, once in the forward and
// once in the backward pass for each block, counted from 0. Must outlive the backward pass.
class BlockRanks {
 public:
  virtual ~BlockRanks() = default;
  // Returns the global rows of a whole block, as runs in the order of the gathered block.
  virtual std::vector<Range> rows(size_t block) const = 0;
  virtual at::Tensor gather(const at::Tensor& part, size_t block) const = 0;
  // Reduce-scatters the gradient of the whole block: returns this rank's part, in the given sizes,
  // summed over the ranks.
  virtual at::Tensor give_back(const at::Tensor& gradient, at::IntArrayRef sizes,
                               size_t block) const = 0;
};

// Returns the log-probabilities [tokens] of labels [tokens], 0 for ignored labels, in fp32 (fp64
// for fp64), under the softmax of the logits x table^T. Differentiable in x, table, options.bias,
// options.z and options.up, token by token. x, labels, options, logits_bytes: as for
// linear_cross_entropy() of the whole table or, if `combine` is given, of this rank's shard.
//   vocabulary  rows over all ranks
//   combine     reduces the softmax statistics, see VocabularyShard::combine
//   ranks       null: each block is whole on this rank
//   bias_begin  global row of the first row of options.bias and options.up, which cover all rows
//               that this rank visits
// Softmax statistics of the blocks are combined as the blocks arrive; the backward pass recomputes
// each block's logits: four matrix products instead of three. The backward pass keeps x and three
// numbers per token.
at::Tensor linear_log_probabilities(const at::Tensor& x, const ForEachBlock& table,
                                    const at::Tensor& labels, int64_t vocabulary,
                                    const std::function<void(const at::Tensor&)>& combine = {},
                                    const BlockRanks* ranks = nullptr,
                                    const LogitOptions& options = {}, int64_t bias_begin = 0,
                                    int64_t logits_bytes = kDefaultLogitsBytes);

// Returns the sum of the cross-entropies: linear_cross_entropy() for a table in blocks, computed as
// linear_log_probabilities().
at::Tensor linear_cross_entropy(const at::Tensor& x, const ForEachBlock& table,
                                const at::Tensor& labels, int64_t vocabulary,
                                const std::function<void(const at::Tensor&)>& combine = {},
                                const BlockRanks* ranks = nullptr, const LogitOptions& options = {},
                                int64_t bias_begin = 0, int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
