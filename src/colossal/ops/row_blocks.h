// Embedding lookup, and the loss of a vocabulary head, with a table of which only one block of rows
// is in memory at a time. Each block has its own autograd node; the backward pass begins with the
// last block. So the gradient of a block can be released before the gradient of the next one is
// computed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/linear_cross_entropy.h"

namespace colossal::ops {

// ForEachBlock calls visit(rows, begin) for each block of the table, in order. rows: [rows of the
// block, features], the table's rows from global row `begin` on; in memory only during the call.
using VisitRows = std::function<void(const at::Tensor& rows, int64_t begin)>;
using ForEachBlock = std::function<void(const VisitRows& visit)>;

// Returns the table's row for each token, [.., features]; zeros for tokens whose row is in no
// block. tokens: [..] int64. Differentiable in the table.
at::Tensor look_up(const ForEachBlock& table, const at::Tensor& tokens);

// For tables of which each block is itself sharded over ranks: gathers blocks and reduces their
// gradients. Blocks count from 0. gather() and reduce_scatter_gradient() are collective:
// linear_log_probabilities() calls gather() for each block in the forward and in the backward pass,
// and reduce_scatter_gradient() in the backward pass. Autograd does not record these calls. An
// object must outlive the backward pass.
class BlockRanks {
 public:
  virtual ~BlockRanks() = default;
  // Returns the global indices of a whole block's rows, as runs, in the order that gather() gives
  // the rows.
  virtual std::vector<Range> rows(size_t block) const = 0;
  // Returns the whole block. part: this rank's part of it.
  virtual at::Tensor gather(const at::Tensor& part, size_t block) const = 0;
  // Reduce-scatters the gradient of a whole block: returns this rank's part of the sum over the
  // ranks. sizes: of this rank's part.
  virtual at::Tensor reduce_scatter_gradient(const at::Tensor& gradient, at::IntArrayRef sizes,
                                             size_t block) const = 0;
};

// Returns the log-probability of each token's label, [tokens] in fp32 (fp64 for fp64); 0 for
// kIgnoredLabel. The probabilities are the softmax of logits with weight = table (see
// LogitOptions). Differentiable in x, table, options.bias, options.z and options.up. x, labels,
// logits_bytes: as for linear_cross_entropy(). If `combine` is given, the table is this rank's
// shard of the vocabulary, and the gradient of x is this shard's term. Here, options may have a
// low-rank adapter.
//   vocabulary  number of rows over all ranks; labels must be below it
//   combine     see VocabularyShard::combine; called once for all tokens
//   ranks       null: each block that `table` visits is whole
//   bias_begin  global row of the first row of options.bias and options.up; both must have all rows
//               of the blocks that this rank visits
// The forward pass merges each block's softmax statistics into those of the blocks before it. The
// backward pass recomputes each block's logits, so there are four matrix products instead of three.
// Saves x, labels and three numbers per token for backward, but no logits.
at::Tensor linear_log_probabilities(const at::Tensor& x, const ForEachBlock& table,
                                    const at::Tensor& labels, int64_t vocabulary,
                                    const std::function<void(const at::Tensor&)>& combine = {},
                                    const BlockRanks* ranks = nullptr,
                                    const LogitOptions& options = {}, int64_t bias_begin = 0,
                                    int64_t logits_bytes = kDefaultLogitsBytes);

// linear_cross_entropy() for a table in blocks: returns minus the sum of linear_log_probabilities()
// over tokens.
at::Tensor linear_cross_entropy(const at::Tensor& x, const ForEachBlock& table,
                                const at::Tensor& labels, int64_t vocabulary,
                                const std::function<void(const at::Tensor&)>& combine = {},
                                const BlockRanks* ranks = nullptr, const LogitOptions& options = {},
                                int64_t bias_begin = 0, int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
