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

// Statistics of the inputs of a block's linear layers. Linear layers that read the same input share
// its statistics.
class BlockInputs {
 public:
  // Adds the input rows [n, in] that the linear layers `weights` multiply. The arguments are those
  // of nn::ProductInputCallback.
  void add(const std::vector<nn::ParameterHandle>& weights, std::optional<int64_t> expert,
           const at::Tensor& rows);

  // Returns the statistics of a linear layer's input; null if the layer, or `expert` of a layer of
  // experts, has had no input rows.
  const ops::InputStatistics* find(const std::string& parameter,
                                   std::optional<int64_t> expert = {}) const;

 private:
  using Key = std::pair<std::string, int64_t>;
  std::map<Key, Key> first_;  // parameter and expert -> key in statistics_
  std::map<Key, ops::InputStatistics> statistics_;
};

// A parameter of a block. numbers: fp32; [out, in] for linear layers, [experts, out, in] for stacks
// of experts.
struct BlockParameter {
  nn::ParameterHandle handle;
  at::Tensor numbers;
  at::ScalarType stored = at::kFloat;  // dtype in the model folder
};
// key: name within the block, e.g. "mlp_up.weight"
using BlockParameters = std::map<std::string, BlockParameter>;

// AWQ scaling (ops/awq.h). In each of `places`, multiplies the columns of the linear layers'
// weights by factors that minimize the quantization error, and divides the outputs of the norm or
// linear layer before them by the same factors, so that the block computes what it computed before.
// Experts without input rows are not scaled. how: returns how a weight will be quantized.
// norm_unit_offset: see DecoderConfig.
void scale_inputs(const std::vector<models::ScaledInputs>& places, const BlockInputs& inputs,
                  const std::function<ops::Quantization(const nn::Parameter& weight)>& how,
                  bool norm_unit_offset, BlockParameters& block);

}  // namespace colossal::serve
