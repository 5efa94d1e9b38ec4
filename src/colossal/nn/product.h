// Multiplies an input by the weights of a linear layer, whether the weights are plain, packed
// (frozen bases of adapters) or quantized (serving).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"
#include "colossal/ops/packed_weight.h"

namespace colossal::nn {

// x [.., in] -> [.., sum of outputs on this rank]: the products with each weight, concatenated. All
// weights have the same storage form and the dimension order `order`. biases: one per weight, or
// empty.
at::Tensor multiply(const at::Tensor& x, const std::vector<ParameterHandle>& weights,
                    const std::vector<ParameterHandle>& biases, WeightOrder order,
                    LayerScope& scope);

// Whether the weights are packed or quantized. Such weights are dequantized only for the product,
// so they are frozen, and the product is differentiable with respect to x alone.
bool are_quantized(const std::vector<ParameterHandle>& weights);

// Returns the layout of the part of a packed weight that a placement gives this rank. shape: of the
// whole weight, stored in `order`; held: this rank's ranges of each dim; empty: all.
ops::PackedLayout packed_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                const std::vector<std::vector<Range>>& held, WeightOrder order);

// Returns the same for a stack of matrices [experts, .., ..], which is packed as one weight
// [experts * outputs, inputs].
ops::PackedLayout packed_stack_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                      const std::vector<std::vector<Range>>& held,
                                      WeightOrder order);

}  // namespace colossal::nn
