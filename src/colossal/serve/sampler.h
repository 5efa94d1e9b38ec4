// Chooses the next token from logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace colossal::serve {

struct SamplingOptions {
  double temperature = 1.0;  // 0: the most likely token
  int64_t top_k = 0;         // only the k most likely; 0: all
  double top_p = 1.0;        // only the fewest whose probabilities reach p (Holtzman et al. 2020)
  uint64_t seed = 0;
};

// Throws ConfigError for values out of range, naming the flag.
void validate(const SamplingOptions& options);

// logits [vocabulary], any float type. The draw is a pure function of the seed, `sequence` (which
// of a batch) and `position` (of the token to come), so sampling is the same however work is laid
// out.
int64_t sample(const at::Tensor& logits, const SamplingOptions& options, int64_t sequence,
               int64_t position);

}  // namespace colossal::serve
