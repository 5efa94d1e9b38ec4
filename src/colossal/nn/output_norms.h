// Lengths of the rows of an adapted weight, by which DoRA divides them (S. Liu et al. 2024, "DoRA:
// Weight-Decomposed Low-Rank Adaptation").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Adds up a flat tensor over the ranks that share a model's weights, in place.
using SumOverRanks = std::function<void(const at::Tensor& flat)>;

struct AdaptedWeight {
  ParameterHandle weight;
  ParameterHandle down;  // A [rank, in]
  ParameterHandle up;    // B [out, rank]
  double scale = 1;
};

// The Euclidean norm of each row of W + scale * B A, of the outputs that are here of B:
// [out_features here], fp32, or fp64 of fp64. Without gradients. sum: null where one rank has all.
// Ranks may hold copies of what others hold. Law: an all-reduce of (in + out) (rank + 1) numbers
// and one of 2 out.
at::Tensor output_norms(const AdaptedWeight& adapted, const SumOverRanks& sum, LayerScope& scope);

}  // namespace colossal::nn
