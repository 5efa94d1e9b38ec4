// Autoregressive generation with a key/value cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "colossal/models/language_model.h"
#include "colossal/serve/sampling.h"

namespace colossal::serve {

struct GenerateOptions {
  int64_t max_new_tokens = 100;
  SamplingOptions sampling;
  at::Device device = at::kCPU;     // where the model's weights are
  std::vector<int32_t> end_tokens;  // stops at any of them, which is not given out
};

// Calls `emit` with each new token as it is drawn. Stops at max_new_tokens, at one of end_tokens,
// or when the model's positions are used up. Returns how many were emitted. Throws ConfigError for
// a prompt that is empty or leaves no position, or has a token outside the vocabulary.
int64_t generate(models::LanguageModel& model, const models::ModelFacts& facts,
                 std::span<const int32_t> prompt, const GenerateOptions& options,
                 const std::function<void(int32_t)>& emit);

}  // namespace colossal::serve
