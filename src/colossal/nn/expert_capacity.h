// Expert capacity: in training, an expert accepts a limited number of tokens of each sequence and
// drops the others (D. Lepikhin et al. 2020, "GShard", with a sequence as GShard's group).
// LocalExperts applies it if RouterOptions::capacity_factor is above 0.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "colossal/nn/router.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

// Rows of several ranks, concatenated.
struct GatheredTokenRows {
  at::Tensor rows;    // [tokens of all these ranks, width]
  int64_t first = 0;  // index of this rank's first row
};
// Gathers rows over the ranks that route tokens of the same sequences; all these ranks must call
// it, even without rows. rows: [tokens that this rank routes, width] in fp64, one row per token.
// Column kPositionColumn of `rows` holds the token's position in this rank's part of the sequence,
// from 0 to TokenGrid::sequence - 1. The function replaces it by the position in the whole
// sequence, from 0 to `positions` - 1. It does not change the other columns, which
// within_capacity() defines. A null GatherTokenRows means that no other rank routes tokens of this
// rank's sequences.
using GatherTokenRows = std::function<GatheredTokenRows(const at::Tensor& rows, int64_t positions)>;
constexpr int64_t kPositionColumn = 1;  // see GatherTokenRows

// Returns the capacity: the maximum number of tokens that each expert accepts of a sequence with
// `positions` tokens. It is max(1, ceil(capacity_factor * positions * chosen / experts)), where
// capacity_factor, chosen and experts are fields of `options`.
int64_t capacity_of(const RouterOptions& options, int64_t positions);

// Returns routing.experts, [tokens, chosen], in which the value options.experts replaces each
// choice whose expert drops the token. (Indices of experts are below options.experts.) Of the
// tokens of a sequence that have chosen an expert, the expert accepts at most capacity_of(): those
// with the largest routing weights for it. Weights are compared after rounding to multiples of
// 2^-16; among equal weights, earlier positions win.
//   context      gives the number of positions of each sequence: `sequence` on this rank, and
//                `whole_sequence`, which must be set, over all ranks that share it
//   first_token  index of the first token that this rank routes, among the flattened tokens
//                [context.tokens().batch * context.tokens().sequence]; the tokens that it routes
//                are consecutive
//   share        gathers rows over the ranks that route tokens of the same sequences; may be null
// routing.weights is not changed: the caller must leave dropped choices out of the weighted sum. On
// the meta device nothing is dropped.
at::Tensor within_capacity(const Routing& routing, const RouterOptions& options,
                           const StepContext& context, int64_t first_token,
                           const GatherTokenRows& share);

}  // namespace colossal::nn
