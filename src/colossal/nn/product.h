// The products of one input with the weights of a layer, however these are held: as numbers, packed
// (frozen bases of adapters), or quantized (serving).
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/nn/layer_scope.h"
#include "colossal/nn/parameter.h"
#include "colossal/ops/packed_weight.h"

namespace colossal::nn {

// x [.., in] -> [.., sum of out here], results side by side. All weights are held alike and stored
// in `order`. biases: as many, or none.
at::Tensor multiply(const at::Tensor& x, const std::vector<ParameterHandle>& weights,
                    const std::vector<ParameterHandle>& biases, WeightOrder order,
                    LayerScope& scope);

// Whether their numbers are made for the product only, so that it is frozen and differentiable by x
// alone.
bool are_in_few_bits(const std::vector<ParameterHandle>& weights);

// Which part of a packed weight a placement gives a rank. shape: of the whole, stored in `order`;
// held: for each of its dims the ranges here; none: all.
ops::PackedLayout packed_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                const std::vector<std::vector<Range>>& held, WeightOrder order);

// The same of a stack [experts, .., ..] of matrices, which is packed as one weight [experts *
// outputs, inputs].
ops::PackedLayout packed_stack_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                      const std::vector<std::vector<Range>>& held,
                                      WeightOrder order);

}  // namespace colossal::nn
