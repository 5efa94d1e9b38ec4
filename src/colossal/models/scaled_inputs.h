// Linear layers whose input features can be rescaled without changing the model's output: y = W x =
// (W diag(s)) (diag(s)^-1 x). Used by AWQ (ops/awq.h).
#pragma once

#include <string>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/models/decoder_config.h"

namespace colossal::models {

// A group of linear layers of one block that read the same input, and the layer that produces this
// input. That layer's parameters can absorb a division by a factor per feature: a norm's weight, or
// the rows of another linear layer's weight. Names are relative to the block: "attention_norm".
struct ScaledInputs {
  std::vector<std::string> products;
  std::string producer;
  bool producer_is_norm = false;
  // The outputs of a producer of which only some are the input; empty: all.
  Range producer_outputs{};
  bool of_experts = false;  // each expert has its own input and factors
};

// Returns the groups of block `layer` whose input nothing else reads, those after a norm first.
// Leaves out norms without weights, norms whose output continues the residual stream, norms before
// experts, and latent attention.
std::vector<ScaledInputs> scaled_inputs(const DecoderConfig& config, int64_t layer);

}  // namespace colossal::models
