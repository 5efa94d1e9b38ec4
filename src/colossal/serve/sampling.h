// Chooses the next token from logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace colossal::serve {

// How a token is chosen from logits. Applied in this order: masks of tokens, logit biases,
// penalties, division by the temperature, then top_k, top_p, min_p and typical_p, each to the
// tokens that the one before has kept. Definitions are those of Hugging Face transformers; presence
// and frequency penalties are those of vLLM.
struct SamplingOptions {
  double temperature = 1;  // 0: greedy, the most likely token
  int64_t top_k = 0;       // keeps the k most likely tokens; 0: all
  // nucleus: keeps the fewest tokens whose total probability reaches p (Holtzman et al. 2020)
  double top_p = 1;
  double min_p = 0;  // keeps tokens with probability >= min_p * that of the most likely token
  // locally typical sampling: keeps the most typical tokens whose total probability reaches p
  // (Meister et al. 2022)
  double typical_p = 1;
  double repetition_penalty = 1;  // of seen tokens: divides logits > 0, multiplies others
  double presence_penalty = 0;    // subtracted once from the logit of each generated token
  // subtracted from a token's logit once per occurrence in the generated text
  double frequency_penalty = 0;
  // (token, bias): added to the token's logit
  std::vector<std::pair<int32_t, double>> logit_bias{};
  std::vector<int32_t> allowed_tokens{};  // only these tokens may be chosen; empty: all
  std::vector<int32_t> bad_tokens{};      // these tokens are never chosen
  int64_t min_tokens = 0;  // end tokens are masked until this many tokens were generated
  uint64_t seed = 0;       // with the position, determines the random number of a draw
};

// Throws ConfigError if a value is out of range (the message names the option's flag), or if a
// token is not in the vocabulary.
void validate(const SamplingOptions& options, int64_t vocabulary);

// The tokens before the token that is chosen.
struct SeenTokens {
  std::span<const int32_t> prompt, generated;
};

// Applies masks, biases and penalties to logits in place; does not divide by the temperature.
// logits: [vocabulary], fp64, contiguous. end_tokens: masked until min_tokens are generated.
void process_logits(const at::Tensor& logits, const SamplingOptions& options,
                    const SeenTokens& seen, std::span<const int32_t> end_tokens);

struct TokenProbability {
  int32_t token = 0;
  double probability = 0;
};

// Returns the tokens that may be drawn, ascending by token number, with their probabilities.
// logits: [vocabulary], fp64, contiguous, after process_logits(). Throws Error if logits are not
// finite or all tokens are masked.
std::vector<TokenProbability> distribution(const at::Tensor& logits,
                                           const SamplingOptions& options);

// Draws a token from distribution(). position: index of the new token in its sequence.
int32_t sample(const at::Tensor& logits, const SamplingOptions& options, int64_t position);

}  // namespace colossal::serve
