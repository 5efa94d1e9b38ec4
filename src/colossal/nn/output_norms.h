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
// of B on this rank], in fp32 (fp64 if A or W is fp64), without gradients.
//
// sum: null if this rank holds the whole weights. Otherwise the call is collective over the ranks
// of `sum`. Several of these ranks may hold the same elements. Law: it calls `sum` twice. The first
// call sums A, B, and the number of ranks that hold each column of A and each row of B: (in + out)
// * (r + 1) elements. The second call sums, for each row of the weight, the square sum and the
// number of columns that it includes: 2 * out elements.
at::Tensor output_norms(const AdaptedWeight& adapted, const SumOverRanks& sum, LayerScope& scope);

}  // namespace colossal::nn
