// The Llama family (H. Touvron et al. 2023; Qwen2), as transformers computes it: rotary positions,
// grouped-query attention, SwiGLU, RMS norm before each. Single-process code: the builder decides
// how layers run.
#pragma once

#include "colossal/models/decoder.h"
#include "colossal/models/llama/config.h"
#include "colossal/nn/builder.h"

namespace colossal::models::llama {

class Model : public Decoder {
 public:
  Model(nn::Builder& build, const Config& config);
};

}  // namespace colossal::models::llama
