// Log-probabilities of tokens, of a model's logits as they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/serve/request.h"

namespace colossal::serve {

// Of `token`, with the entropy of all, and of the `most_likely` most likely tokens, of equals the
// lower first. logits: [vocabulary] fp64, contiguous.
GeneratedToken with_logprobs(const at::Tensor& logits, int32_t token, int64_t most_likely);

}  // namespace colossal::serve
