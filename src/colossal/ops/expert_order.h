// Permutes token rows so that rows of the same expert are contiguous, and combines the experts'
// outputs. All sums are in a fixed order: two runs give the same bits, on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// Sorted row i is routing choice order[i] of the flattened [tokens, chosen]; choice j is sorted row
// place[j]. The rows of an expert are in the order of their tokens.
struct ExpertOrder {
  at::Tensor order;             // [rows] int64; rows = tokens * chosen - dropped choices
  at::Tensor place;             // [tokens * chosen] int64; the number of rows if dropped
  std::vector<int64_t> counts;  // rows of each expert
  int64_t chosen = 0;           // experts per token (top-k)
  bool has_dropped = false;
};

// experts: [tokens, chosen] int64, the experts that each token is routed to; num_experts marks a
// dropped choice, which has no row and counts as zeros in sums. Synchronizes with the device of
// `experts`. On meta, where the routing is unknown, rows are divided among experts in proportion to
// `expected`; empty: evenly.
ExpertOrder order_by_expert(const at::Tensor& experts, int64_t num_experts,
                            const std::vector<int64_t>& expected = {});

// Returns the permuted rows: row i of the result is row order[i]. inverse: the inverse permutation,
// for the gradient.
at::Tensor permuted_rows(const at::Tensor& rows, const at::Tensor& order,
                         const at::Tensor& inverse);

// Returns x [tokens, features] as [rows, features], sorted by expert. Differentiable.
at::Tensor rows_by_expert(const at::Tensor& x, const ExpertOrder& order);

// Returns [tokens, features]: for each token the sum of its rows times their weights. rows: [rows,
// features], sorted by expert; weights: [tokens, chosen]. Differentiable in rows and weights.
at::Tensor sum_over_experts(const at::Tensor& rows, const at::Tensor& weights,
                            const ExpertOrder& order);

}  // namespace colossal::ops
