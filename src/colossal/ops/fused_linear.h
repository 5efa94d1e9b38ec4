// Linear layers that share an input, computed together, with outputs concatenated along the last
// dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::ops {

// weights: [out, in] each; biases: [out] each, one for each weight, or empty.
struct FusedWeights {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// Returns [tokens, sum of out] for x [tokens, in]. Not differentiable: for layers with their own
// backward pass.
at::Tensor fused_product(const at::Tensor& x, const FusedWeights& given);
// Returns the gradient of x, [tokens, in]. y_gradient: [tokens, sum of out].
at::Tensor fused_input_gradient(const at::Tensor& y_gradient,
                                const std::vector<at::Tensor>& weights);

// Returns whether any weight requires a gradient. If none does, the backward pass does not need x.
bool is_any_trained(at::TensorList weights);

// Selects which gradients of fused weights and biases to compute, and in which layout.
struct FusedGradients {
  std::vector<int64_t> out_features;  // of each weight
  std::vector<bool> transposed;       // for each weight: return its gradient as [in, out]
  std::vector<bool> wanted;           // for each weight, then, optionally, for each bias

  // Selects all gradients.
  static FusedGradients all(std::vector<int64_t> out_features, bool with_biases, bool transposed);
};
// Returns wanted.size() gradients; unwanted ones are undefined. y_gradient: [tokens, sum of out];
// x: [tokens, in].
std::vector<at::Tensor> fused_weight_gradients(const at::Tensor& y_gradient, const at::Tensor& x,
                                               const FusedGradients& gradients);

// Returns [.., sum of out] for x [.., in]. Differentiable. Throws InternalError if there are no
// weights, or if the number of biases is neither 0 nor that of the weights.
at::Tensor fused_linear(const at::Tensor& x, const FusedWeights& given);

}  // namespace colossal::ops
