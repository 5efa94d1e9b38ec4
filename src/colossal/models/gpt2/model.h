// GPT-2 (Radford et al. 2019), as transformers computes it: learned positions, pre-norm blocks,
// gelu_new. Single-process code: the builder decides how layers run.
#pragma once

#include "colossal/models/decoder.h"
#include "colossal/models/gpt2/config.h"
#include "colossal/nn/builder.h"

namespace colossal::models::gpt2 {

class Model : public Decoder {
 public:
  Model(nn::Builder& build, const Config& config);
};

}  // namespace colossal::models::gpt2
