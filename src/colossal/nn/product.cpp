#include "colossal/nn/product.h"

#include "colossal/nn/product_inputs.h"
#include "colossal/ops/product/fused_linear.h"
#include "colossal/ops/product/packed_product.h"
#include "colossal/ops/product/quantized_product.h"

namespace colossal::nn {

at::Tensor multiply(const at::Tensor& x, const std::vector<ParameterHandle>& weights,
                    const std::vector<ParameterHandle>& biases, WeightOrder order,
                    LayerScope& scope) {
  report_product_inputs(weights, x);
  if (weights.front()->quantized) {
    return ops::quantized_linear(x, {quantized_matrices(weights), used(biases, scope)});
  }
  if (weights.front()->packed) {
    ops::PackedWeights given{.bytes = used(weights, scope), .layouts = {}, .biases = {}};
    for (const ParameterHandle& weight : weights) given.layouts.push_back(weight->packed);
    given.biases = used(biases, scope);
    return ops::packed_linear(x, given);
  }
  std::vector<at::Tensor> oriented = used(weights, scope);
  if (order == WeightOrder::in_out) {
    for (at::Tensor& weight : oriented) weight = weight.t();
  }
  return ops::fused_linear(x, {std::move(oriented), used(biases, scope)});
}

bool are_packed_or_quantized(const std::vector<ParameterHandle>& weights) {
  return weights.front()->quantized || weights.front()->packed;
}

ops::PackedLayout packed_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                const std::vector<std::vector<Range>>& held, WeightOrder order) {
  const size_t outputs = order == WeightOrder::out_in ? 0 : 1, inputs = 1 - outputs;
  if (held.empty()) return ops::PackedLayout::whole(type, shape[outputs], shape[inputs]);
  return {type, shape[outputs], shape[inputs], held[outputs], held[inputs]};
}

ops::PackedLayout packed_stack_layout(ops::PackedType type, const std::vector<int64_t>& shape,
                                      const std::vector<std::vector<Range>>& held,
                                      WeightOrder order) {
  const size_t outputs = order == WeightOrder::out_in ? 1 : 2, inputs = 3 - outputs;
  const int64_t of_expert = shape[outputs];
  if (held.empty()) return ops::PackedLayout::whole(type, shape[0] * of_expert, shape[inputs]);
  std::vector<Range> rows;
  for (const Range& experts : held[0]) {
    for (int64_t expert = experts.begin; expert < experts.end; ++expert) {
      for (const Range& run : held[outputs]) {
        const Range next{expert * of_expert + run.begin, expert * of_expert + run.end};
        if (!rows.empty() && rows.back().end == next.begin) {
          rows.back().end = next.end;
        } else {
          rows.push_back(next);
        }
      }
    }
  }
  return {type, shape[0] * of_expert, shape[inputs], rows, held[inputs]};
}

}  // namespace colossal::nn
