// Norms of the rows of an adapted weight W + scale * B A, by which DoRA divides the outputs (S. Liu
// et al. 2024, "DoRA: Weight-Decomposed Low-Rank Adaptation").
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"

namespace colossal::nn {

// Sums a flat tensor in place over the ranks that divide a model's weights. All of them must call
// it.
using SumOverRanks = std::function<void(const at::Tensor& flat)>;

struct AdaptedWeight {
  ParameterHandle weight;
  ParameterHandle down;  // A [r, in]; r: the adapter's rank
  ParameterHandle up;    // B [out, r]
  double scale = 1;
};

// Returns the Euclidean norm of each row of W + scale * B A, for the rows of B on this rank:
// [out_features on this rank], in fp32 (fp64 if A is fp64). Without gradients. sum: null if this
// rank holds whole weights; else all ranks of `sum` must call output_norms(). Several of them may
// hold the same elements. Law: if sum is not null, it is called twice: for A and B, with (in + out)
// * (r + 1) numbers, then for the norms, with 2 * out numbers.
at::Tensor output_norms(const AdaptedWeight& adapted, const SumOverRanks& sum, LayerScope& scope);

}  // namespace colossal::nn
