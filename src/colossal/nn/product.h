// Multiplies an input by the weights of a linear layer. The weights may be plain tensors, packed
// (Parameter::packed; frozen weights under adapters) or quantized (Parameter::quantized; serving).
// Dense linear layers call multiply(), and so do those sharded layers that multiply without
// communication. Other sharded layers have products of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"
#include "colossal/ops/product/packed_weight.h"

namespace colossal::nn {

// Returns the products of x with each weight plus the biases, concatenated: [.., sum of
// out_features on this rank].
//   x        [.., in_features on this rank]
//   weights  one or more: all plain, all packed or all quantized
//   biases   one per weight, or empty
//   order    of the dims of plain weights
// The parameters stay on the device until `scope` ends.
at::Tensor multiply(const at::Tensor& x, const std::vector<ParameterHandle>& weights,
                    const std::vector<ParameterHandle>& biases, WeightOrder order,
                    LayerScope& scope);

// Returns whether the weights are packed or quantized; all must be alike. Such weights are frozen:
// multiply() is then differentiable in x, but not in the biases.
bool are_packed_or_quantized(const std::vector<ParameterHandle>& weights);

// Returns the layout of this rank's part of a weight that is packed in `type`. shape: of the global
// weight, with dims in the given order. held: Placement::held of the weight: the indices of each
// dim that this rank holds; empty: all indices of all dims.
ops::PackedLayout packed_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                const std::vector<std::vector<Range>>& held, WeightOrder order);

// Like packed_layout(), for a stack of experts' matrices. shape: [experts, .., ..], with the last
// two dims in the given order. The stack is packed as one weight [experts * outputs, inputs].
ops::PackedLayout packed_stack_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                      const std::vector<std::vector<Range>>& held,
                                      WeightOrder order);

}  // namespace colossal::nn
