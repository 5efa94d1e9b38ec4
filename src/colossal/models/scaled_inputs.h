// Where a decoder's products could have inputs of other sizes: y = W x = (W s) (x / s).
#pragma once

#include <string>
#include <vector>

#include "colossal/models/decoder_config.h"

namespace colossal::models {

// Products of one block that read one input, and what makes that input and can divide it by a
// factor for each feature: a norm, or another product, by its outputs. Names are of layers within
// the block: "attention_norm".
struct ScaledInputs {
  std::vector<std::string> products;
  std::string maker;
  bool by_norm = false;
  bool of_experts = false;  // each expert's own
};

// Those of block `layer` from which nothing else is computed; those of norms come first. Empty
// where there are none: norms without weights, residual streams that go on from a norm, latents.
std::vector<ScaledInputs> scaled_inputs(const DecoderConfig& config, int64_t layer);

}  // namespace colossal::models
