// Several linear layers with a common input, such as the projections of queries, keys and values,
// computed as one layer whose outputs are concatenated along the last dim. fused_linear() is the
// differentiable function. The other functions are its forward and backward steps, for layers with
// a backward function of their own; autograd does not record them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace colossal::ops {

// The parameters of the layers. "sum of out" below is out_features().
struct FusedWeights {
  std::vector<at::Tensor> weights;  // [out, in] each; `out` may differ
  std::vector<at::Tensor> biases;   // [out] each, one for each weight; or empty: no biases

  int64_t out_features() const;  // sum of `out` over the weights
};

// Returns the concatenated outputs of the layers, [tokens, sum of out]. x: [tokens, in].
at::Tensor fused_product(const at::Tensor& x, const FusedWeights& given);
// Returns the gradient of x, [tokens, in]. y_gradient: of the outputs, [tokens, sum of out].
at::Tensor fused_input_gradient(const at::Tensor& y_gradient,
                                const std::vector<at::Tensor>& weights);

// Returns whether at least one of the weights requires a gradient. If none does, the backward pass
// does not need x.
bool any_requires_grad(at::TensorList weights);

// Which gradients of weights and biases fused_weight_gradients() computes.
struct FusedGradientRequest {
  std::vector<int64_t> out_features;  // `out` of each weight
  std::vector<bool> transposed;       // for each weight: return its gradient as [in, out] instead
                                      // of [out, in]
  std::vector<bool> wanted;           // for each weight, then for each bias if there are biases:
                                      // compute its gradient

  // Requests the gradients of all weights and, if with_biases, of all biases. transposed: for every
  // weight.
  static FusedGradientRequest all(std::vector<int64_t> out_features, bool with_biases,
                                  bool transposed);
};
// Returns one tensor for each element of gradients.wanted, in its order: the gradient of the weight
// or bias; undefined if not wanted. y_gradient: [tokens, sum of out]. x: [tokens, in]; may be
// undefined if no weight's gradient is wanted.
std::vector<at::Tensor> fused_weight_gradients(const at::Tensor& y_gradient, const at::Tensor& x,
                                               const FusedGradientRequest& gradients);

// Returns the concatenated outputs of the layers, [.., sum of out]. x: [.., in]. Differentiable.
// Throws InternalError if there are no weights, or if there are biases, but not one for each
// weight.
at::Tensor fused_linear(const at::Tensor& x, const FusedWeights& given);

}  // namespace colossal::ops
