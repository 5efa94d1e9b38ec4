// Samples the next token of a text from the model's logits. Used by the inference engine and by
// drafters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace colossal::serve {

// How a token is sampled from logits. The options are applied in this order: masks (allowed_tokens,
// bad_tokens, min_tokens), logit_bias, penalties, temperature, then the filters top_k, top_p, min_p
// and typical_p. Each filter sees only the tokens that the filters before it keep. Definitions are
// those of Hugging Face transformers; presence and frequency penalties are those of vLLM.
struct SamplingOptions {
  double temperature = 1;  // divides the logits; 0: greedy, always the most likely token
  int64_t top_k = 0;       // keeps the k most likely tokens; 0: all
  // Nucleus sampling: keeps the fewest tokens whose total probability reaches top_p (Holtzman et
  // al. 2020).
  double top_p = 1;
  double min_p = 0;  // keeps tokens with at least min_p times the greatest probability
  // Locally typical sampling: keeps the tokens with the smallest |-log(probability) - entropy|, as
  // few as reach a total probability of typical_p, and all tokens that tie with the last of these
  // (Meister et al. 2022).
  double typical_p = 1;
  // For tokens of the prompt and of the generated text: divides positive logits, multiplies
  // negative logits.
  double repetition_penalty = 1;
  // Subtracted once from the logit of each token that occurs in the generated text.
  double presence_penalty = 0;
  // Subtracted from the logit of a token once per occurrence in the generated text.
  double frequency_penalty = 0;
  // (token, bias): added to the token's logit
  std::vector<std::pair<int32_t, double>> logit_bias{};
  std::vector<int32_t> allowed_tokens{};  // only these tokens may be chosen; empty: all
  std::vector<int32_t> bad_tokens{};      // these tokens are never chosen
  // End tokens are masked until this many tokens have been generated.
  int64_t min_tokens = 0;
  // Seed of the random numbers. The random number of a token depends only on the seed and the
  // token's position.
  uint64_t seed = 0;
};

// Throws ConfigError, which names the option, if a value is out of range or a token is outside the
// vocabulary. vocabulary: number of tokens of the model.
void validate(const SamplingOptions& options, int64_t vocabulary);

// The tokens before the token that is sampled.
struct SeenTokens {
  std::span<const int32_t> prompt, generated;
};

// Applies masks, biases and penalties to logits in place; does not divide by the temperature.
// logits: [vocabulary], fp64, contiguous. end_tokens: the tokens that options.min_tokens masks.
void process_logits(const at::Tensor& logits, const SamplingOptions& options,
                    const SeenTokens& seen, std::span<const int32_t> end_tokens);

struct TokenProbability {
  int32_t token = 0;
  double probability = 0;
};

// Returns the tokens that may be sampled, with their probabilities, which sum to 1, in ascending
// order of token numbers; with temperature 0, only the most likely token. logits: [vocabulary],
// fp64, contiguous, after process_logits(). Throws Error if a logit is NaN, the greatest logit is
// infinite, or all tokens are masked.
std::vector<TokenProbability> distribution(const at::Tensor& logits,
                                           const SamplingOptions& options);

// Returns a token sampled from distribution(logits, options), with a random number that depends
// only on options.seed and `position`. position: index of the new token in its sequence, prompt
// included. Throws as distribution().
int32_t sample(const at::Tensor& logits, const SamplingOptions& options, int64_t position);

}  // namespace colossal::serve
