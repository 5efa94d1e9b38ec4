// Dispatch and combine of a mixture of experts on one rank: sorts token rows by expert, and sums
// the experts' outputs for each token. All sums have a fixed order, so two runs give the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace colossal::ops {

// The order of token rows sorted by expert. The router chooses `chosen` experts for each token, so
// there are tokens * chosen choices: choice j belongs to token floor(j / chosen). A choice may be
// dropped, for example because its expert is full. Each other choice has one row, a copy of its
// token. The rows of one expert are consecutive, in the order of their tokens.
struct ExpertOrder {
  at::Tensor order;             // [rows] int64: sorted row i is the row of choice order[i]
  at::Tensor place;             // [tokens * chosen] int64: choice j has sorted row place[j]; for a
                                // dropped choice, place[j] is the number of rows
  std::vector<int64_t> counts;  // number of rows of each expert
  int64_t chosen = 0;           // experts per token (top-k)
  bool has_dropped = false;     // whether a choice was dropped
};

// Sorts the choices of a router by expert. experts: [tokens, chosen] int64, the indices of each
// token's experts; the index num_experts marks a dropped choice. Copies the counts to the host,
// which waits for the device of `experts`. meanwhile: what a GPU computes while the host waits for
// it, if `experts` are on one; else it is not called. On meta the routing is unknown, and no choice
// counts as dropped; counts are then proportional to `expected`, one number per expert, or equal if
// `expected` is empty or all zeros. Throws InternalError if an index is above num_experts.
ExpertOrder order_by_expert(const at::Tensor& experts, int64_t num_experts,
                            const std::vector<int64_t>& expected = {},
                            const std::function<void()>& meanwhile = nullptr);

// Permutes rows: row i of the result is rows[order[i]]. rows: [rows, features]. order: [rows]
// int64, a permutation. inverse: the inverse permutation, which the gradient needs. Differentiable
// in `rows`.
at::Tensor permuted_rows(const at::Tensor& rows, const at::Tensor& order,
                         const at::Tensor& inverse);

// Returns the sorted rows, [rows, features]: sorted row i is a copy of row floor(order.order[i] /
// order.chosen) of x [tokens, features]. Differentiable in x.
at::Tensor rows_by_expert(const at::Tensor& x, const ExpertOrder& order);

// Returns [tokens, features]: for each token, the sum over its choices of the choice's row times
// the choice's weight. A dropped choice adds nothing. rows: [rows, features], sorted by expert.
// weights: [tokens, chosen]. Differentiable in rows and weights.
at::Tensor sum_over_experts(const at::Tensor& rows, const at::Tensor& weights,
                            const ExpertOrder& order);

}  // namespace colossal::ops
