// How many of a sequence's tokens an expert takes at most; it drops the rest (D. Lepikhin et al.
// 2020, "GShard", with the sequence as the group).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "colossal/nn/router.h"
#include "colossal/nn/step_context.h"

namespace colossal::nn {

// Rows of all ranks that route tokens of the same sequences, and where this rank's begin.
struct SharedRows {
  at::Tensor rows;
  int64_t first = 0;
};
// Gathers rows [rows here, width] in fp64 over these ranks. Column kColumnOfRow is that of a
// token's row, of those here, and becomes the one of the whole row, of `positions`. Null: this rank
// alone routes them.
using ShareRows = std::function<SharedRows(const at::Tensor& rows, int64_t positions)>;
constexpr int64_t kColumnOfRow = 1;

// ceil(factor * positions * chosen / experts), 1 at least, of a sequence of so many positions.
int64_t capacity_of(const RouterOptions& options, int64_t positions);

// Returns routing.experts [tokens, chosen] with options.experts, which is none, in place of an
// expert that drops the token: of a sequence's tokens it takes those with the largest weights, of
// those within the same 2^-16 the first. What is dropped adds nothing to a token's result, and
// other weights stay. first_token: of the micro-batch's tokens here, [batch * sequence], the first
// that is routed here; the others follow it. On meta nothing is dropped.
at::Tensor within_capacity(const Routing& routing, const RouterOptions& options,
                           const StepContext& context, int64_t first_token, const ShareRows& share);

}  // namespace colossal::nn
