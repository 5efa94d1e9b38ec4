// Calibration for post-training quantization, one block of the model at a time: collects statistics
// of the inputs of the block's linear layers, and scales the block's weights for AWQ. Used by
// quantize_folder() (folder_quantization.h).
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
#include "colossal/ops/product/awq.h"
#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::serve {

// Statistics of the inputs of a block's linear layers, collected while calibration text passes
// through the block. Linear layers that read the same input (e.g. query, key and value) share one
// set of statistics.
class BlockInputs {
 public:
  // Adds the rows [n, in] that the linear layers with these weights receive as input. expert: for a
  // stack of experts, the expert that receives the rows; nullopt for other layers. To be called by
  // an nn::ProductInputListener.
  void add(const std::vector<nn::ParameterHandle>& weights, std::optional<int64_t> expert,
           const at::Tensor& rows);

  // Returns the statistics of the input of the linear layer whose weight is named `parameter`
  // (nn::Parameter::name); null if the layer has received no rows. The pointer is valid as long as
  // this object. expert: for a stack of experts, the expert whose input it is; nullopt for other
  // layers.
  const ops::InputStatistics* find(const std::string& parameter,
                                   std::optional<int64_t> expert = {}) const;

 private:
  using Key = std::pair<std::string, int64_t>;
  // By a weight's name and its expert (-1: none): the key of its input in statistics_, i.e. the
  // name of the first of the weights that read this input, and the same expert.
  std::map<Key, Key> first_;
  std::map<Key, ops::InputStatistics> statistics_;
};

// A parameter of a block and its values.
struct BlockParameter {
  nn::ParameterHandle handle;
  // The values, fp32: [out, in] for linear layers, [experts, out, in] for stacks of experts.
  at::Tensor numbers;
  at::ScalarType stored = at::kFloat;  // dtype in the model folder
};
// All parameters of a block. Key: the name within the block, e.g. "mlp_up.weight".
using BlockParameters = std::map<std::string, BlockParameter>;

// Scales the weights in `block` for AWQ (ops/product/awq.h), in place. An element of `places` names
// linear layers that read the same input (ScaledInputs::products) and the layer that produces this
// input (ScaledInputs::producer). awq_factors() returns one factor for each feature of the input.
// Each column of the weights of the products is multiplied by its feature's factor, and the
// producer's output of this feature is divided by the factor. The block's output therefore stays
// the same, apart from rounding. Experts that received no rows are not scaled.
//
// inputs: statistics of the block's linear layers; throws InternalError if a layer of `places`,
// other than experts, has none. how: returns how a weight will be quantized. norm_unit_offset:
// whether norms multiply by 1 + weight (TransformerConfig).
void scale_inputs(const std::vector<models::ScaledInputs>& places, const BlockInputs& inputs,
                  const std::function<ops::Quantization(const nn::Parameter& weight)>& how,
                  bool norm_unit_offset, BlockParameters& block);

}  // namespace colossal::serve
