// Linear layers whose input features can be rescaled without changing the model's output: y = W x =
// (W diag(s)) (diag(s)^-1 x). Used by AWQ (ops/awq.h).
#pragma once

#include <string>
#include <vector>

#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Linear layers of one block with a common input, and the layer that produces this input and can
// divide it by a factor per feature: a norm by its weight, or another linear layer by its output
// rows. Names are relative to the block: "attention_norm".
struct ScaledInputs {
  std::vector<std::string> products;
  std::string maker;
  bool by_norm = false;
  bool of_experts = false;  // a separate input for each expert
};

// Returns the groups of block `layer` whose input is not used otherwise; groups after norms come
// first. Leaves out norms without weights, norms whose output continues the residual stream, and
// latent attention.
std::vector<ScaledInputs> scaled_inputs(const DecoderConfig& config, int64_t layer);

}  // namespace colossal::models
