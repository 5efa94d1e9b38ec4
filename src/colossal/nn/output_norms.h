// Computes the norms of the rows of an adapted weight W + scale * B A. DoRA divides the outputs of
// a linear layer by these norms (S. Liu et al. 2024, "DoRA: Weight-Decomposed Low-Rank
// Adaptation").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Sums a one-dimensional tensor in place over the ranks that divide a model's weights. Collective:
// all these ranks must call it.
using SumOverRanks = std::function<void(const at::Tensor& flat)>;

// A weight with the low-rank adapter B A. The global shapes are: W [out, in] (or [in, out], see
// Parameter::product), A [r, in], B [out, r]. r is the adapter's rank.
struct AdaptedWeight {
  ParameterHandle weight;  // W
  ParameterHandle down;    // A
  ParameterHandle up;      // B
  double scale = 1;
};

// Returns the Euclidean norm of each row of W + scale * B A, for the rows of B on this rank: [rows
// of B on this rank], in fp32 (fp64 if A or W is fp64), without gradients. A row has the weights of
// one output, also if W is stored as [in, out]. scope: the scope of the layer's forward pass; the
// weights stay on the device until it ends.
//
// sum: null if this rank holds the whole weights. Otherwise output_norms() is collective over the
// ranks of `sum`, and calls `sum` twice. Several of these ranks may hold the same elements, so each
// call also counts the ranks that hold an element, and its sum is divided by that count. Law: the
// first call assembles the whole A and B: each rank contributes its shards, and zeros elsewhere.
// With one count for each column of A and each row of B these are (in + out) * (r + 1) elements.
// The second call sums the squares of each row of W + scale * B A, and counts them: 2 *
// out elements. The squared norm of a row is then `in` times the mean of its squares.
at::Tensor output_norms(const AdaptedWeight& adapted, const SumOverRanks& sum, LayerScope& scope);

}  // namespace colossal::nn
