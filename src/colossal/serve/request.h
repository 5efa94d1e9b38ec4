// Requests to the engine, and their results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "colossal/nn/adapter_weights.h"
#include "colossal/serve/sampling.h"

namespace colossal::serve {

// Natural logarithm of a token's probability by the model's logits, before sampling options apply.
// Request::logprobs_temperature divides the logits of generated tokens.
struct TokenLogprob {
  int32_t token = 0;
  double logprob = 0;
};

struct GeneratedToken {
  int32_t token = 0;
  double logprob = 0;               // if log-probabilities are requested
  double entropy = 0;               // likewise; in nats, of the distribution over all tokens
  int64_t rank = 0;                 // likewise; 1 for the most likely token
  std::vector<TokenLogprob> top{};  // the most likely tokens, most likely first
};

enum class FinishReason {
  stop,       // an end token, a finished constraint, or on_token returned false
  length,     // max_new_tokens or EngineOptions::max_model_len reached
  cancelled,  // by Engine::cancel() or ~Engine()
  failed      // an error; on_finish receives the message
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // prompt tokens found in the prefix cache
  int64_t completion_tokens = 0;  // generated tokens, without the end token
  double queue_seconds = 0;       // from submit() to the first step that works on the request
  double prefill_seconds = 0;     // from the first step to the first token
  double decode_seconds = 0;      // from the first token to the end
};

// Restricts each next token by the text generated so far (a grammar, a schema). Called on the
// engine's thread.
class LogitsConstraint {
 public:
  virtual ~LogitsConstraint() = default;
  // Sets the logits of forbidden tokens to -infinity. logits: [vocabulary], fp64, contiguous,
  // changed in place.
  virtual void apply(at::Tensor& logits) = 0;
  // Advances the constraint by the chosen token. Not called for end tokens.
  virtual void accept(int32_t token) = 0;
  // Whether the text is complete; the request then ends with `stop`.
  virtual bool finished() const { return false; }
  // Returns an independent copy in the same state, e.g. for a forked beam.
  virtual std::shared_ptr<LogitsConstraint> clone() const = 0;
};

// How the final hidden states of a prompt's tokens become one embedding.
enum class Pooling {
  none,  // no embedding
  last,  // state of the last token
  // mean of the states of all tokens
  mean
};

// Decides when beam search ends although its beams could still be extended.
enum class EarlyStopping {
  // when `width` texts are found and no beam, if it ended at its current length, would score better
  // than the worst of these texts
  by_length,
  at_width,  // when `width` texts are found
  never      // as by_length, but if length_penalty > 0, beams are scored at the greatest length
};

struct BeamSearchOptions {
  int64_t width = 1;          // number of beams; 1: no beam search
  double length_penalty = 1;  // score of a text = sum of log-probabilities / length^length_penalty
  EarlyStopping early_stopping = EarlyStopping::by_length;
};

// A complete text found by beam search.
struct BeamText {
  std::vector<GeneratedToken> tokens{};  // without the end token
  double score = 0;                      // see BeamSearchOptions; the end token counts
  FinishReason reason = FinishReason::stop;
};

struct Request {
  std::vector<int32_t> prompt{};
  SamplingOptions sampling{};
  int64_t max_new_tokens = 16;        // 0: prefill only, for on_prompt or on_embedding
  std::vector<int32_t> end_tokens{};  // end the text with `stop`; not passed to on_token
  // Requests log-probabilities of each generated token and, at its position, of this many most
  // likely tokens; -1: none.
  int64_t logprobs = -1;
  // Divides the logits from which log-probabilities of generated tokens are computed.
  double logprobs_temperature = 1;
  int64_t prompt_logprobs = -1;  // as `logprobs`, for the tokens of the prompt; passed to on_prompt
  Pooling pooling = Pooling::none;  // result passed to on_embedding; requires max_new_tokens = 0
  // If width > 1, beam search in place of sampling. `sampling` must then have temperature 0 or 1
  // and the default top_k, top_p, min_p and typical_p.
  BeamSearchOptions beams{};
  int priority = 0;  // lower values are scheduled first; equal values in order of arrival
  // The adapter to apply; null: none. Keys and values are shared only between requests with the
  // same adapter.
  std::shared_ptr<const nn::AdapterWeights> adapter{};
  std::string cache_salt{};  // only requests with equal salts share keys and values
  std::shared_ptr<LogitsConstraint> constraint{};  // null: no constraint

  // The callbacks below are called on the engine's thread. They must not block; of the engine's
  // functions, they may call only submit() and cancel(). If a callback throws, the request ends
  // with `failed`.

  // Called once, before the first token, if prompt_logprobs >= 0: one entry for each token of the
  // prompt, nullopt for the first.
  std::function<void(const std::vector<std::optional<GeneratedToken>>&)> on_prompt{};
  // Called once, with the embedding [hidden], if pooling is not `none`.
  std::function<void(const std::vector<double>&)> on_embedding{};
  // Called for each generated token except end tokens; a false result ends the request with `stop`.
  // Not called in beam search.
  std::function<bool(const GeneratedToken&)> on_token{};
  // In beam search: returns whether a text with these generated tokens is complete.
  std::function<bool(std::span<const int32_t>)> ends_beam{};
  // In beam search: called once with the complete texts, best first, at most `width`.
  std::function<void(const std::vector<BeamText>&)> on_beams{};
  // Called exactly once, after all other callbacks. `error` is empty unless the reason is `failed`.
  std::function<void(FinishReason, const Usage&, const std::string& error)> on_finish{};
};

}  // namespace colossal::serve
