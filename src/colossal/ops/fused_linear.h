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
// The gradients of the weights, `transposed` or not, then of the biases.
std::vector<at::Tensor> fused_weight_gradients(const at::Tensor& y_gradient, const at::Tensor& x,
                                               const std::vector<at::Tensor>& weights,
                                               bool with_biases, bool transposed);

// x [.., in] -> [.., sum of out], differentiable. InternalError: no weights, or fewer biases.
at::Tensor fused_linear(const at::Tensor& x, const FusedWeights& given);

}  // namespace colossal::ops
