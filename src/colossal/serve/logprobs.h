// Log-probabilities of tokens by a model's unprocessed logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/serve/request.h"

namespace colossal::serve {

// Returns the log-probability of `token`, its rank, the `most_likely` most likely tokens with
// log-probabilities (ties by token number), and the entropy (nats) of the distribution. logits:
// [vocabulary], fp64, contiguous.
GeneratedToken with_logprobs(const at::Tensor& logits, int32_t token, int64_t most_likely);

}  // namespace colossal::serve
