// Computes what a request's log-probabilities report about one token of a text. Used by EngineCore,
// for generated tokens and tokens of prompts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/serve/request.h"

namespace colossal::serve {

// Returns `token` with all other fields of GeneratedToken set. `logprob` is its log-probability.
// `rank` is 1 + the number of tokens with greater logits. `entropy` is that of the distribution,
// in nats. `top` has the `most_likely` most likely tokens with their log-probabilities; of tokens
// with equal logits, the lower token number comes first. logits: [vocabulary], fp64, contiguous;
// their softmax is the distribution. Pass the model's logits, before sampling options are applied;
// for a generated token, divided by Request::logprobs_temperature.
GeneratedToken with_logprobs(const at::Tensor& logits, int32_t token, int64_t most_likely);

}  // namespace colossal::serve
