// Norms of the rows of an adapted weight, by which DoRA divides the outputs (S. Liu et al. 2024,
// "DoRA: Weight-Decomposed Low-Rank Adaptation").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Sums a flat tensor, in place, over the ranks that divide a model's weights.
using SumOverRanks = std::function<void(const at::Tensor& flat)>;

struct AdaptedWeight {
  ParameterHandle weight;
  ParameterHandle down;  // A [rank, in]
  ParameterHandle up;    // B [out, rank]
  double scale = 1;
};

// Returns the Euclidean norm of each row of W + scale * B A, for the outputs that this rank holds
// of B: [out_features on this rank], in fp32 (fp64 if A is fp64). Without gradients. sum: null if
// this rank holds whole weights. Several ranks may hold the same elements. Law: an all-reduce of
// (in + out) * (rank + 1) numbers and an all-reduce of 2 * out numbers.
at::Tensor output_norms(const AdaptedWeight& adapted, const SumOverRanks& sum, LayerScope& scope);

}  // namespace colossal::nn
