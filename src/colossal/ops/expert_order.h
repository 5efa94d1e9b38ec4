// Sorts token rows by expert, and sums the experts' outputs for each token. All sums are in a fixed
// order: two runs give the same bits, on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// An order of rows by expert. There is one row for each choice of the router that was not dropped;
// choice j is element j of the flattened [tokens, chosen]. Sorted row i belongs to choice order[i];
// choice j has sorted row place[j]. The rows of an expert are in the order of their tokens.
struct ExpertOrder {
  at::Tensor order;             // [rows] int64
  at::Tensor place;             // [tokens * chosen] int64; for a dropped choice: number of rows
  std::vector<int64_t> counts;  // rows of each expert
  int64_t chosen = 0;           // experts per token (top-k)
  bool has_dropped = false;
};

// experts: [tokens, chosen] int64, the experts to which each token is routed. The number
// num_experts marks a dropped choice, which has no row and counts as zeros in sums. Waits for the
// device of `experts`. On meta, where the routing is unknown, divides the rows among experts in
// proportion to `expected`, one number per expert; empty: evenly. Throws InternalError if an expert
// is above num_experts.
ExpertOrder order_by_expert(const at::Tensor& experts, int64_t num_experts,
                            const std::vector<int64_t>& expected = {});

// Returns the rows in another order: row i of the result is rows[order[i]]. order: a permutation;
// inverse: its inverse, which the gradient needs. Differentiable.
at::Tensor permuted_rows(const at::Tensor& rows, const at::Tensor& order,
                         const at::Tensor& inverse);

// Returns the sorted rows, [rows, features]; each is a copy of its token's row in x [tokens,
// features]. Differentiable.
at::Tensor rows_by_expert(const at::Tensor& x, const ExpertOrder& order);

// Returns [tokens, features]: for each token, the sum of its rows, each times its weight. rows:
// [rows, features], sorted by expert; weights: [tokens, chosen]. Differentiable in rows and
// weights.
at::Tensor sum_over_experts(const at::Tensor& rows, const at::Tensor& weights,
                            const ExpertOrder& order);

}  // namespace colossal::ops
