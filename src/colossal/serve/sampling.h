// Chooses the next token from logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace colossal::serve {

// What is done to logits, in this order: tokens that may not come are masked, biases are added,
// penalties apply, the temperature divides, then the cuts top_k, top_p, min_p and typical_p, each
// of what the one before has left. These are transformers' definitions, but that presence and
// frequency penalties are vLLM's.
struct SamplingOptions {
  double temperature = 1;  // 0: the most likely token
  int64_t top_k = 0;       // only the k most likely; 0: all
  double top_p = 1;        // only the fewest whose probabilities reach p (Holtzman et al. 2020)
  double min_p = 0;        // only those at least p times as likely as the most likely one
  double typical_p = 1;  // only the most typical whose probabilities reach p (Meister et al. 2022)
  double repetition_penalty =
      1;                         // divides positive logits of tokens seen, multiplies negative ones
  double presence_penalty = 0;   // subtracted from the logits of tokens that were generated
  double frequency_penalty = 0;  // ... times how often they were
  std::vector<std::pair<int32_t, double>> logit_bias{};  // added to these tokens' logits
  std::vector<int32_t> allowed_tokens{};                 // only these come; empty: all may
  std::vector<int32_t> bad_tokens{};                     // these do not come
  int64_t min_tokens = 0;  // end tokens do not come before so many others
  uint64_t seed = 0;       // a draw is a pure function of the seed and the position
};

// Throws ConfigError for values out of range, naming the flag; and for tokens outside the
// vocabulary.
void validate(const SamplingOptions& options, int64_t vocabulary);

// The tokens before the one to choose.
struct SeenTokens {
  std::span<const int32_t> prompt, generated;
};

// What the options do to logits [vocabulary] before the temperature, in place: masks, biases,
// penalties. logits: fp64, contiguous.
void process_logits(const at::Tensor& logits, const SamplingOptions& options,
                    const SeenTokens& seen, std::span<const int32_t> end_tokens);

struct TokenProbability {
  int32_t token = 0;
  double probability = 0;
};

// The tokens that may be drawn from processed logits [vocabulary], fp64, contiguous, by number, and
// their probabilities. Throws Error for logits that are not finite, and where no token may come.
std::vector<TokenProbability> distribution(const at::Tensor& logits,
                                           const SamplingOptions& options);

// Draws a token from distribution(). position: that of the new token in its sequence.
int32_t sample(const at::Tensor& logits, const SamplingOptions& options, int64_t position);

}  // namespace colossal::serve
