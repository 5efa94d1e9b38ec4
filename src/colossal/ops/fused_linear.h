// Linear layers with one common input are computed together, and their outputs are concatenated
// along the last dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::ops {

// weights: [out, in] each. biases: [out] each, one for each weight; or empty.
struct FusedWeights {
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// Returns the concatenated outputs, [tokens, sum of out], for x [tokens, in]. Autograd records
// neither this function nor the two functions of gradients below: they are for layers with a
// backward function of their own.
at::Tensor fused_product(const at::Tensor& x, const FusedWeights& given);
// Returns the gradient of x, [tokens, in]. y_gradient: [tokens, sum of out].
at::Tensor fused_input_gradient(const at::Tensor& y_gradient,
                                const std::vector<at::Tensor>& weights);

// Returns whether a weight requires a gradient. If none does, the backward pass does not need x.
bool is_any_trained(at::TensorList weights);

// Says which gradients of fused weights and biases to compute, and in which order of dims.
struct FusedGradientRequest {
  std::vector<int64_t> out_features;  // of each weight
  std::vector<bool> transposed;       // per weight: its gradient is [in, out], not [out, in]
  std::vector<bool> wanted;           // per weight; then per bias, if there are biases

  // Selects all gradients.
  static FusedGradientRequest all(std::vector<int64_t> out_features, bool with_biases,
                                  bool transposed);
};
// Returns a gradient for each element of gradients.wanted; undefined where it is false. y_gradient:
// [tokens, sum of out]; x: [tokens, in], may be undefined if no weight's gradient is wanted.
std::vector<at::Tensor> fused_weight_gradients(const at::Tensor& y_gradient, const at::Tensor& x,
                                               const FusedGradientRequest& gradients);

// Returns the concatenated outputs, [.., sum of out], for x [.., in]. Differentiable. Throws
// InternalError if there are no weights, or if the number of biases is neither 0 nor that of the
// weights.
at::Tensor fused_linear(const at::Tensor& x, const FusedWeights& given);

}  // namespace colossal::ops
