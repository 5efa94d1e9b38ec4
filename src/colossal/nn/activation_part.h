// How layers that are written once for all tensor modes find this rank's part of the activations
// between blocks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "colossal/nn/step_context.h"

namespace colossal::nn {

// Selects, from a tensor with an element for each token of this rank's sequences, [batch, sequence,
// ..], those of the tokens of which this rank has activations between blocks, in the layout of such
// activations. No gradient flows through it. Null: of all tokens.
using TokenPart = std::function<at::Tensor(const at::Tensor& tokens, const StepContext& context)>;

// The tokens of which this rank has activations between blocks, for layers that depend on where
// tokens are.
struct LocalTokens {
  // Returns the context of these tokens alone, from that of all tokens of this rank's sequences.
  // Null: they are the same.
  std::function<StepContext(const StepContext& of_all)> context = nullptr;
  // Whether activations are [tokens, features] instead of [batch, sequence, features].
  bool are_flat = false;
  int64_t first_feature = 0;  // global index of the first feature on this rank
};

// Sums a tensor over the ranks that divide activations between blocks. Differentiable: the gradient
// of each rank's part is that of the sum, which must be the same on all ranks. Null: each rank has
// whole activations.
using SumOfParts = std::function<at::Tensor(const at::Tensor& part)>;

}  // namespace colossal::nn
