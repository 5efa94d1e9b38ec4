// Embedding lookup and language-model loss for vocabulary tables that are divided into blocks of
// rows. The functions read one block after the other, so that only one need be on the device at a
// time. They make an autograd node for each block, and the backward pass begins with the last
// block. So the gradient of one block can be released before the gradient of the next block is
// computed. The functions for a whole table are at::embedding() and, in linear_cross_entropy.h,
// linear_cross_entropy().
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal::ops {

// Receives one block: rows [rows of the block, features], whose first row has the index `begin` in
// the whole vocabulary. The function may read `rows` during the call, and autograd nodes that it
// makes may save `rows`. After the call, the bytes of `rows` may leave the device. If a node has
// saved `rows`, memory::Activations brings these bytes back when the backward pass reads them; the
// table is not visited again.
using VisitRows = std::function<void(const at::Tensor& rows, int64_t begin)>;
// A table: a function that calls visit(rows, begin) for each of its blocks, in order.
using ForEachBlock = std::function<void(const VisitRows& visit)>;

// Returns the row of the table for each token, [.., features]. Tokens whose row is in no block get
// zeros. tokens: [..] int64. The table must have at least one block. Differentiable in the table.
at::Tensor look_up(const ForEachBlock& table, const at::Tensor& tokens);

// Communication for tables each of whose blocks is sharded over ranks. Blocks are numbered from 0,
// in the order of ForEachBlock. linear_log_probabilities() calls gather() for each block in the
// forward pass and again in the backward pass. If the table requires a gradient, the backward pass
// also calls reduce_scatter_gradient() for each block. Both are collective, and autograd does not
// record them. The object must outlive the backward pass.
class BlockCollectives {
 public:
  virtual ~BlockCollectives() = default;
  // Returns the rows of the whole block, as ranges of indices in the whole vocabulary, in the order
  // of the rows that gather() returns.
  virtual std::vector<Range> rows(size_t block) const = 0;
  // Returns the whole block. part: this rank's part of the block.
  virtual at::Tensor gather(const at::Tensor& part, size_t block) const = 0;
  // Reduce-scatters the gradient of a whole block: sums it over the ranks, and returns this rank's
  // part of the sum, with the sizes `sizes`.
  virtual at::Tensor reduce_scatter_gradient(const at::Tensor& gradient, at::IntArrayRef sizes,
                                             size_t block) const = 0;
};

// Returns the log-probability of each token's label, [tokens] in fp64 for fp64, otherwise in fp32;
// 0 for kIgnoredLabel. The probabilities are the softmax of the logits of LogitOptions, with the
// table as `weight`. Differentiable in x, the table, options.bias, options.z and options.up. The
// table may be sharded twice: the rows of the vocabulary over the ranks of `combine`, and then each
// block of a shard over the ranks of `ranks`.
//   x, labels     [tokens, hidden] and [tokens], as for linear_cross_entropy()
//   table         the vocabulary projection; if `combine` is given, only the rows of one shard
//   vocabulary    number of rows over all ranks; labels must be below it
//   combine       VocabularyShard::combine, which combines softmax statistics over the shards;
//                 called once for all tokens. Empty: the vocabulary is not sharded. If given, the
//                 gradients of x and options.z are this shard's terms only; the caller must sum the
//                 terms over the shards
//   ranks         null: each block that `table` visits is whole. Otherwise `table` visits this
//                 rank's part of each block, ranks->gather() returns the whole block, and
//                 ranks->rows() gives the indices of the block's rows: `begin` is not used
//   options       may have a low-rank adapter
//   bias_begin    index in the whole vocabulary of the first row of options.bias and options.up.
//                 Both hold the rows of all blocks that `table` visits: with `ranks`, also the rows
//                 in the parts of the other ranks
//   logits_bytes  maximum bytes of logits that are held at once
// The forward pass merges the softmax statistics of each block into those of the blocks before it.
// The backward pass recomputes the logits of each block, so there are four matrix products instead
// of the three of linear_cross_entropy(). Saved for the backward pass are x, labels, the rows that
// `table` visits, the tensors of `options` and three numbers per token, but no logits. Throws
// InternalError if a label on the CPU is outside the vocabulary, or if sizes or types do not match.
// If `ranks` is given, sizes and types are not checked.
at::Tensor linear_log_probabilities(const at::Tensor& x, const ForEachBlock& table,
                                    const at::Tensor& labels, int64_t vocabulary,
                                    const std::function<void(const at::Tensor&)>& combine = {},
                                    const BlockCollectives* ranks = nullptr,
                                    const LogitOptions& options = {}, int64_t bias_begin = 0,
                                    int64_t logits_bytes = kDefaultLogitsBytes);

// linear_cross_entropy() for a table in blocks: returns minus the sum over tokens of
// linear_log_probabilities(), with the same parameters.
at::Tensor linear_cross_entropy(const at::Tensor& x, const ForEachBlock& table,
                                const at::Tensor& labels, int64_t vocabulary,
                                const std::function<void(const at::Tensor&)>& combine = {},
                                const BlockCollectives* ranks = nullptr,
                                const LogitOptions& options = {}, int64_t bias_begin = 0,
                                int64_t logits_bytes = kDefaultLogitsBytes);

}  // namespace colossal::ops
