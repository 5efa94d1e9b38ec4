// Products of one input with one weight or several, results side by side.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::ops {

// Weights [out, in] each; biases: as many, or none.
struct FusedWeights {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// x [tokens, in] -> [tokens, sum of out]. Without gradients, for layers that have their own.
at::Tensor fused_product(const at::Tensor& x, const FusedWeights& given);
// y_gradient [tokens, sum of out] -> x's gradient, [tokens, in].
at::Tensor fused_input_gradient(const at::Tensor& y_gradient,
                                const std::vector<at::Tensor>& weights);

// Whether a gradient of any of them is wanted. Else the backward pass needs no x.
bool is_any_trained(at::TensorList weights);

// Which gradients of weights and biases side by side are to be made, and how.
struct FusedGradients {
  std::vector<int64_t> out_features;  // of each weight
  std::vector<bool> transposed;       // those that are to be [in, out]
  std::vector<bool> wanted;  // of the weights, then of the biases, if these are asked for at all

  // All gradients.
  static FusedGradients all(std::vector<int64_t> out_features, bool with_biases, bool transposed);
};
// Returns wanted.size() gradients; those that are not wanted are undefined.
std::vector<at::Tensor> fused_weight_gradients(const at::Tensor& y_gradient, const at::Tensor& x,
                                               const FusedGradients& gradients);

// x [.., in] -> [.., sum of out], differentiable. InternalError: no weights, or fewer biases.
at::Tensor fused_linear(const at::Tensor& x, const FusedWeights& given);

}  // namespace colossal::ops
