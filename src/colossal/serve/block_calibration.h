// Calibration of the quantized weights of one block: statistics of the inputs of its linear layers,
// and AWQ scaling.
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

// Input statistics of the linear layers of a block. Linear layers with the same input share one
// entry.
class BlockInputs {
 public:
  // Adds input rows [n, in] of the linear layers `weights`. Signature as nn::TellProductInputs.
  void add(const std::vector<nn::ParameterHandle>& weights, std::optional<int64_t> expert,
           const at::Tensor& rows);

  // Returns the statistics of a linear layer's input; null if the layer (or this expert of the
  // layer) has had no input rows.
  const ops::InputStatistics* find(const std::string& parameter,
                                   std::optional<int64_t> expert = {}) const;

 private:
  using Key = std::pair<std::string, int64_t>;
  std::map<Key, Key> first_;  // parameter and expert -> key in statistics_
  std::map<Key, ops::InputStatistics> statistics_;
};

// A parameter of a block. numbers: fp32, [out, in] for linear layers.
struct BlockParameter {
  nn::ParameterHandle handle;
  at::Tensor numbers;
  at::ScalarType stored = at::kFloat;  // dtype in the model folder
};
// key: name within the block, e.g. "mlp_up.weight"
using BlockParameters = std::map<std::string, BlockParameter>;

// AWQ scaling (ops/awq.h): for each of `places`, multiplies weights by per-input factors that
// minimize the quantization error and divides the preceding norm or linear layer by them, so that
// the block computes the same function. how: quantization of a weight. norm_unit_offset: see
// DecoderConfig.
void scale_inputs(const std::vector<models::ScaledInputs>& places, const BlockInputs& inputs,
                  const std::function<ops::Quantization(const nn::Parameter& weight)>& how,
                  bool norm_unit_offset, BlockParameters& block);

}  // namespace colossal::serve
