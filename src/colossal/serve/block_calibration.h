// Rounds the weights of one block of a model, with what its products multiply.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/models/scaled_inputs.h"
#include "colossal/nn/product_inputs.h"
#include "colossal/ops/awq.h"
#include "colossal/ops/quantized_matrix.h"

namespace colossal::serve {

// What products of a block multiplied. Products of one input share their statistics.
class BlockInputs {
 public:
  // As nn::TellProductInputs.
  void add(const std::vector<nn::ParameterHandle>& weights, std::optional<int64_t> expert,
           const at::Tensor& rows);

  // Null where the product, or this expert's, saw no rows.
  const ops::InputStatistics* find(const std::string& parameter,
                                   std::optional<int64_t> expert = {}) const;

 private:
  using Key = std::pair<std::string, int64_t>;
  std::map<Key, Key> first_;  // of the products of its input
  std::map<Key, ops::InputStatistics> statistics_;
};

// A parameter of a block, with its numbers in fp32, [out, in] of products.
struct BlockParameter {
  nn::ParameterHandle handle;
  at::Tensor numbers;
  at::ScalarType stored = at::kFloat;  // in files
};
using BlockParameters = std::map<std::string, BlockParameter>;  // by name in it: "mlp_up.weight"

// Moves the sizes of inputs into weights, so that the model computes the same and rounding changes
// its products least (ops/awq.h). norm_unit_offset: of DecoderConfig.
void scale_inputs(const std::vector<models::ScaledInputs>& places, const BlockInputs& inputs,
                  const std::function<ops::Quantization(const nn::Parameter& weight)>& how,
                  bool norm_unit_offset, BlockParameters& block);

}  // namespace colossal::serve
