// Log-probabilities of tokens, from logits before the sampling options are applied.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/serve/request.h"

namespace colossal::serve {

// Returns the token with its log-probability and rank, the `most_likely` most likely tokens with
// their log-probabilities (of equal logits, the lower token first), and the entropy of the
// distribution in nats. logits: [vocabulary], fp64, contiguous.
GeneratedToken with_logprobs(const at::Tensor& logits, int32_t token, int64_t most_likely);

}  // namespace colossal::serve
