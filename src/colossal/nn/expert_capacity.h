// Expert capacity: an expert accepts a limited number of a sequence's tokens and drops the rest (D.
// Lepikhin et al. 2020, "GShard", with the sequence as the group).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "colossal/nn/router.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

// Rows of all ranks that route tokens of the same sequences; this rank's rows begin at `first`.
struct SharedRows {
  at::Tensor rows;
  int64_t first = 0;
};
// Gathers rows [rows of this rank, width] in fp64 over the ranks that route tokens of the same
// sequences. On entry, column kColumnOfRow is a token's position among this rank's positions; in
// the result it is the position in the whole sequence of `positions` tokens. Null: this rank alone
// routes the sequences.
using ShareRows = std::function<SharedRows(const at::Tensor& rows, int64_t positions)>;
constexpr int64_t kColumnOfRow = 1;

// Returns max(1, ceil(capacity_factor * positions * chosen / experts)): the capacity of each expert
// for a sequence of `positions` tokens.
int64_t capacity_of(const RouterOptions& options, int64_t positions);

// Returns routing.experts [tokens, chosen], in which options.experts (no valid index) replaces each
// expert that drops the token. Of a sequence's tokens an expert accepts those with the largest
// weights; weights are rounded to multiples of 2^-16, and of equal weights the earlier positions
// win. A dropped choice adds nothing to the token's result; the other weights are unchanged.
// first_token: index, in the micro-batch [batch * sequence] of this rank, of the first token that
// this rank routes; the others follow it. Tensors on meta drop nothing.
at::Tensor within_capacity(const Routing& routing, const RouterOptions& options,
                           const StepContext& context, int64_t first_token, const ShareRows& share);

}  // namespace colossal::nn
