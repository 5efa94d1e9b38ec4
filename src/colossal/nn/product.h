// Multiplies an input by the weights of a linear layer, whether the weights are plain, packed
// (frozen bases of adapters) or quantized (serving).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"
#include "colossal/ops/packed_weight.h"

namespace colossal::nn {

// x [.., in] -> [.., sum of outputs on this rank]: the products of x with each weight,
// concatenated. Either no weight is packed or quantized, or all are in the same way. order: of the
// dims of plain weights. biases: one per weight, or empty.
at::Tensor multiply(const at::Tensor& x, const std::vector<ParameterHandle>& weights,
                    const std::vector<ParameterHandle>& biases, WeightOrder order,
                    LayerScope& scope);

// Whether the weights are packed or quantized. Such weights are frozen and are dequantized only
// during the product, which is differentiable with respect to x alone.
bool are_quantized(const std::vector<ParameterHandle>& weights);

// Returns the layout of this rank's part of a packed weight. shape: of the whole weight, whose dims
// are in `order`; held: Placement::held of the weight.
ops::PackedLayout packed_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                const std::vector<std::vector<Range>>& held, WeightOrder order);

// Like packed_layout(), for a stack of matrices [experts, .., ..], which is packed as one weight
// [experts * outputs, inputs].
ops::PackedLayout packed_stack_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                      const std::vector<std::vector<Range>>& held,
                                      WeightOrder order);

}  // namespace colossal::nn
