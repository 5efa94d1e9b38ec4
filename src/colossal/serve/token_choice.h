// Chooses tokens from logits on the device that has computed them, so that the host waits for a
// number instead of a vocabulary of them. It chooses what sample() (sampling.h) chooses from the
// same logits, up to rounding in fp64.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "colossal/serve/sampling.h"

namespace colossal::serve {

// How a token is chosen from a row of logits: members of SamplingOptions, and the random number.
struct TokenChoice {
  int64_t row = 0;  // index among the rows of logits
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double random = 0;  // in [0, 1)
  bool operator==(const TokenChoice&) const = default;
};

// Returns how the token at `position` is chosen from a row; nullopt if the options need the host:
// if they change logits, or filter them by typical_p.
std::optional<TokenChoice> choice_on_device(const SamplingOptions& options, int64_t row,
                                            int64_t position);

// Returns the tokens, [choices] int64 on the logits' device; -1 where sample() throws because no
// token can be chosen. logits: [rows, vocabulary].
at::Tensor choose_tokens(const at::Tensor& logits, const std::vector<TokenChoice>& choices);

}  // namespace colossal::serve
