// Sorts rows of tokens by the experts that they are routed to, and brings the results back. All
// sums are in a fixed order: two runs give the same bits, on any device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// Sorted row i belongs to choice order[i] of the flattened [tokens, chosen]; choice j has sorted
// row place[j]. Among the rows of an expert those of earlier tokens come first.
struct ExpertOrder {
  at::Tensor order;             // [rows] int64, tokens * chosen less what was dropped
  at::Tensor place;             // [tokens * chosen] int64; `rows` for a choice that was dropped
  std::vector<int64_t> counts;  // rows of each expert
  int64_t chosen = 0;           // experts of a token
  bool has_dropped = false;
};

// experts: [tokens, chosen] int64, those of each token; num_experts for a choice that was dropped,
// whose row does not exist, and counts as zeros in sums. Waits for the device that has them. On
// meta, where the routing is unknown, rows are divided in the ratio of `expected`; empty: evenly.
ExpertOrder order_by_expert(const at::Tensor& experts, int64_t num_experts,
                            const std::vector<int64_t>& expected = {});

// Returns rows in another order: row i of the result is row order[i]. inverse: the inverse
// permutation, for the gradient.
at::Tensor permuted_rows(const at::Tensor& rows, const at::Tensor& order,
                         const at::Tensor& inverse);

// x [tokens, features] -> [rows, features], sorted by expert; differentiable.
at::Tensor rows_by_expert(const at::Tensor& x, const ExpertOrder& order);

// rows: [rows, features], sorted by expert; weights: [tokens, chosen]. Returns
// [tokens, features], the sum of each token's rows times their weights; differentiable in both.
at::Tensor sum_over_experts(const at::Tensor& rows, const at::Tensor& weights,
                            const ExpertOrder& order);

}  // namespace colossal::ops
