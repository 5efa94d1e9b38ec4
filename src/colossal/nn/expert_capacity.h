// Expert capacity: an expert accepts a limited number of a sequence's tokens and drops the rest (D.
// Lepikhin et al. 2020, "GShard", with the sequence as the group).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "colossal/nn/router.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

// The rows of all ranks that route tokens of the same sequences, concatenated; this rank's rows
// begin at `first`.
struct GatheredTokenRows {
  at::Tensor rows;
  int64_t first = 0;
};
// Gathers rows [tokens of this rank, width] in fp64, one per token, over the ranks that route
// tokens of the same sequences. All columns but one are copied. In the argument, column
// kColumnOfRow is the index of the token's position among this rank's positions of the sequence; in
// the result it is the position in the whole sequence, which has `positions` tokens. Null: only
// this rank routes tokens of its sequences.
using GatherTokenRows = std::function<GatheredTokenRows(const at::Tensor& rows, int64_t positions)>;
constexpr int64_t kColumnOfRow = 1;

// Returns max(1, ceil(capacity_factor * positions * chosen / experts)): the capacity of each expert
// for a sequence of `positions` tokens.
int64_t capacity_of(const RouterOptions& options, int64_t positions);

// Returns routing.experts [tokens, chosen] with each expert that drops the token replaced by the
// number options.experts, which is no expert's index. Of a sequence's tokens an expert accepts
// those with the largest weights. For this comparison weights are rounded to multiples of 2^-16; of
// equal weights those at earlier positions win. A dropped choice adds nothing to the token's
// result; routing.weights stay as they are. first_token: index, in the micro-batch [batch *
// sequence] of this rank, of the first token that this rank routes; its other tokens follow that
// one. On the meta device nothing is dropped.
at::Tensor within_capacity(const Routing& routing, const RouterOptions& options,
                           const StepContext& context, int64_t first_token,
                           const GatherTokenRows& share);

}  // namespace colossal::nn
