// Changes a model's logits before a token is chosen: the biases, penalties and masks of
// SamplingOptions. Used by the inference engine and by drafters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <span>

#include "colossal/serve/sampling.h"

namespace colossal::serve {

// The text whose next token is chosen.
struct TextSoFar {
  // The tokens before the generated ones: the prompt or, of an encoder-decoder, the decoder's start
  // token.
  std::span<const int32_t> prompt{};
  std::span<const int32_t> generated{};
  std::span<const int32_t> end_tokens{};  // tokens that end the text
  // What the text is written about: of an encoder-decoder the tokens that the encoder reads, of a
  // decoder the prompt.
  std::span<const int32_t> source{};
  // The greatest number of generated tokens, an end token included.
  int64_t max_new_tokens = std::numeric_limits<int64_t>::max();
};

// Applies biases, penalties and masks to logits in place; does not divide by the temperature. They
// are applied in the order of Hugging Face transformers: logit_bias and sequence_bias, penalties,
// masks, forced tokens, exponential_decay_length_penalty, suppressed tokens. A token that is forced
// gets the logit 0, unless all forced tokens are -infinity already, as a constraint makes them:
// then none is forced. logits: [vocabulary], fp64, contiguous; in beam search, log-probabilities.
void process_logits(const at::Tensor& logits, const SamplingOptions& options,
                    const TextSoFar& text);

}  // namespace colossal::serve
