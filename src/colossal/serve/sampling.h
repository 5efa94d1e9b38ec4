// Samples the next token of a text from the model's logits. Used by the inference engine and by
// drafters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace colossal::serve {

// A sequence of tokens, at least one, and the bias of its last token where the others precede it.
struct SequenceBias {
  std::vector<int32_t> tokens;
  double bias = 0;
  bool operator==(const SequenceBias&) const = default;
};

// How a token is sampled from logits. process_logits() (logits_processing.h) applies the biases,
// penalties and masks; distribution() then the temperature and the filters top_k, top_p, min_p and
// typical_p, in this order. Each filter sees only the tokens that the filters before it keep.
// Definitions are those of Hugging Face transformers, whose names differ in part: min_new_tokens is
// min_tokens, bad_words_ids is bad_words. Presence and frequency penalties are those of vLLM.
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
  // For tokens of the source (TextSoFar::source): multiplies positive logits, divides negative
  // logits.
  double encoder_repetition_penalty = 1;
  // Subtracted once from the logit of each token that occurs in the generated text.
  double presence_penalty = 0;
  // Subtracted from the logit of a token once per occurrence in the generated text.
  double frequency_penalty = 0;
  // (token, bias): added to the token's logit
  std::vector<std::pair<int32_t, double>> logit_bias{};
  std::vector<SequenceBias> sequence_bias{};
  // No sequence of this many tokens occurs twice in prompt and generated text; 0: any may.
  int64_t no_repeat_ngram_size = 0;
  // No sequence of this many tokens that occurs in the source is generated; 0: any may be.
  int64_t encoder_no_repeat_ngram_size = 0;
  std::vector<int32_t> allowed_tokens{};  // only these tokens may be chosen; empty: all
  // Sequences of tokens that are never generated; a sequence of one end token has no effect.
  std::vector<std::vector<int32_t>> bad_words{};
  std::vector<int32_t> suppress_tokens{};        // these tokens are never chosen
  std::vector<int32_t> begin_suppress_tokens{};  // these tokens do not begin the text
  // End tokens are masked until this many tokens have been generated (min_tokens), or until prompt
  // and generated text have this many tokens (min_length).
  int64_t min_tokens = 0, min_length = 0;
  // The second token of a sequence: the first one that an encoder-decoder generates.
  std::optional<int32_t> forced_bos_token{};
  // One of these is the last token of a text that reaches its greatest length; empty: any may be.
  std::vector<int32_t> forced_eos_tokens{};
  // (start, factor): after `start` generated tokens, end tokens become more likely: |logit| *
  // (factor^(tokens after start) - 1) is added to their logits.
  std::optional<std::pair<int64_t, double>> exponential_decay_length_penalty{};
  // Seed of the random numbers. The random number of a token depends only on the seed and the
  // token's position.
  uint64_t seed = 0;
  bool operator==(const SamplingOptions&) const = default;
};

// The message of the error that no token can be chosen.
inline constexpr const char* kNoToken =
    "no token can be chosen: the logits are not finite, or no token is allowed next";

// Throws ConfigError, which names the option, if a value is out of range or a token is outside the
// vocabulary. vocabulary: number of tokens of the model.
void validate(const SamplingOptions& options, int64_t vocabulary);

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

// Returns the random number, from 0 to below 1, with which the token at `position` is sampled. It
// depends only on options.seed and `position`: the token's index in its sequence, prompt included.
double random_number(const SamplingOptions& options, int64_t position);

// Returns a token sampled from distribution(logits, options), with random_number(options,
// position). Throws as distribution().
int32_t sample(const at::Tensor& logits, const SamplingOptions& options, int64_t position);

}  // namespace colossal::serve
