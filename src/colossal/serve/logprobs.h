// Log-probabilities of tokens by a model's unprocessed logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/serve/request.h"

namespace colossal::serve {

// Returns the log-probability of `token`, those of the `most_likely` most likely tokens (equal ones
// by number), and the entropy of all. logits: [vocabulary] fp64, contiguous.
GeneratedToken with_logprobs(const at::Tensor& logits, int32_t token, int64_t most_likely);

}  // namespace colossal::serve
