// A training whose sizes divide by none of the usual group sizes, and its serial run.
#pragma once

#include <map>
#include <utility>

#include "tests/support/tiny_training.h"

namespace colossal::test {

// Heads 6, hidden 72, inner 100, vocabulary 101: most group sizes divide none of them.
inline TinyTraining uneven(double dropout, at::ScalarType type) {
  TinyTraining training;
  training.model = {.vocab_size = 101,
                    .n_positions = 16,
                    .n_embd = 72,
                    .n_layer = 2,
                    .n_head = 6,
                    .n_inner = 100,
                    .embd_pdrop = dropout,
                    .attn_pdrop = dropout,
                    .resid_pdrop = dropout};
  training.compute = training.gradient = type;
  training.steps = 5;
  // The gradient of the key biases is zero but for rounding (1e-11 in fp32), and five steps of
  // AdamW would move them by its ratio to eps.
  training.eps = 1e-6;
  return training;
}

inline const TinyResult& serial(double dropout, at::ScalarType type) {
  static std::map<std::pair<double, at::ScalarType>, TinyResult> results;
  const auto [found, is_new] = results.try_emplace({dropout, type});
  if (is_new) found->second = train_tiny(uneven(dropout, type), 1);
  return found->second;
}

}  // namespace colossal::test
