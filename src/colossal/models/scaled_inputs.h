// Finds the linear layers of a model whose input features can be rescaled without changing the
// model's output: y = W x = (W diag(s)) (diag(s)^-1 x), where s has one factor for each feature of
// x. AWQ, a method of weight quantization, chooses s so that quantizing W diag(s) loses little
// (ops/product/awq.h).
#pragma once

#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/models/transformer_config.h"

namespace colossal::models {

// A group of linear layers of one block that read the same input, and the layer that produces this
// input. The division of each feature by its factor can be moved into the producer's parameters: a
// norm's weight (and bias), or the rows of another linear layer's weight. Names are relative to the
// block: "attention_norm".
struct ScaledInputs {
  std::vector<std::string> products;  // the linear layers that read the input
  std::string producer;               // the layer that produces the input
  bool producer_is_norm = false;      // false: the producer is a linear layer
  Range producer_outputs{};  // which outputs of the producer are the input; empty: all outputs
  // true: `products` and `producer` are layers of experts, and each expert has its own input and
  // factors.
  bool of_experts = false;
};

// Returns the groups of block number `layer`, counted from 0: first those whose producer is a norm.
// A group has all layers that read its input. Leaves out inputs whose producer cannot absorb the
// factors, or that other computations read:
// - the output of a norm, if the norm has no weight, or if the output also continues the residual
//   stream or goes to experts, whose router reads it, too;
// - the input of attention's output layer, if query heads share value heads;
// - all inputs of latent attention;
// - the input of the down-projection of an MLP without a gate, or of experts with a clamped gate.
std::vector<ScaledInputs> scaled_inputs(const TransformerConfig& config, int64_t layer);

}  // namespace colossal::models
