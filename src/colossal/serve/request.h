// What is asked of the engine, and what it answers.
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

// The natural logarithm of a token's probability: the model's, before sampling options change it.
struct TokenLogprob {
  int32_t token = 0;
  double logprob = 0;
};

struct GeneratedToken {
  int32_t token = 0;
  double logprob = 0;               // where the request asks for log-probabilities
  double entropy = 0;               // likewise; of the distribution over all tokens
  int64_t rank = 0;                 // the same: 1 for the most likely token
  std::vector<TokenLogprob> top{};  // the most likely, most likely first
};

enum class FinishReason {
  stop,       // an end token, a finished constraint, or on_token returned false
  length,     // max_new_tokens, or the longest sequence that the engine takes
  cancelled,  // by Engine::cancel(), or the engine's end
  failed      // an error, which on_finish is told
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // of those, whose keys and values another request had left
  int64_t completion_tokens = 0;  // given to on_token
  double queue_seconds = 0;       // from submit() to the first step that works on the request
  double prefill_seconds = 0;     // from there to the first token
  double decode_seconds = 0;      // from there to the end
};

// Restricts what may come next, by what came (a grammar, a schema). Called on the engine's thread.
class LogitsConstraint {
 public:
  virtual ~LogitsConstraint() = default;
  // Masks with -infinity what may not come. logits: [vocabulary] fp64, contiguous, in place.
  virtual void apply(at::Tensor& logits) = 0;
  // The token that was chosen.
  virtual void accept(int32_t token) = 0;
  // Whether the text is complete: the request then ends with `stop`.
  virtual bool finished() const { return false; }
  // Another one that stands where this one does, for a text that goes on in several ways.
  virtual std::shared_ptr<LogitsConstraint> clone() const = 0;
};

// How the states that a model's head multiplies, one for each token of a prompt, become one
// embedding.
enum class Pooling {
  none,
  last,  // that of the last token
  mean
};

// When beam search ends before all beams have.
enum class EarlyStopping {
  by_length,  // once no beam is better than the texts found, were it complete at this length
  at_width,   // once as many texts are found as there are beams
  never       // as by_length, but with a length_penalty above 0 at the greatest length
};

struct BeamSearchOptions {
  int64_t width = 1;          // beams that are kept; 1: tokens are chosen one by one
  double length_penalty = 1;  // a text's score is its sum of log-probabilities / length ^ this
  EarlyStopping early_stopping = EarlyStopping::by_length;
};

// A text that beam search has found.
struct BeamText {
  std::vector<GeneratedToken> tokens{};  // without the end token
  double score = 0;                      // see BeamSearchOptions; the end token counts
  FinishReason reason = FinishReason::stop;
};

struct Request {
  std::vector<int32_t> prompt{};
  SamplingOptions sampling{};
  int64_t max_new_tokens = 16;        // 0: only the prompt's log-probabilities
  std::vector<int32_t> end_tokens{};  // end with `stop`; they are not given to on_token
  int64_t logprobs = -1;              // of each token, and of this many most likely ones; -1: none
  double logprobs_temperature = 1;    // divides logits before log-probabilities are taken
  int64_t prompt_logprobs = -1;       // the same of the prompt's tokens, for on_prompt
  Pooling pooling = Pooling::none;    // for on_embedding; needs max_new_tokens = 0
  // The likely texts in place of one; nothing is drawn: the temperature and the cuts of `sampling`
  // must be as they are by default.
  BeamSearchOptions beams{};
  int priority = 0;  // lower comes first; equal ones in order of arrival
  // An adapter beside the model's products; null: none. Keys and values are shared with requests of
  // the same adapter only.
  std::shared_ptr<const nn::AdapterWeights> adapter{};
  std::string cache_salt{};  // only requests of equal salts share keys and values
  std::shared_ptr<LogitsConstraint> constraint{};  // null: none

  // All are called on the engine's thread; they must not wait, nor call the engine but for submit()
  // and cancel(). An exception from one of them ends the request with `failed`.

  // Once, before the first token, where prompt_logprobs is not -1: one for each token of the
  // prompt; the first has none.
  std::function<void(const std::vector<std::optional<GeneratedToken>>&)> on_prompt{};
  // Once, where there is a pooling: as many numbers as the model has features.
  std::function<void(const std::vector<double>&)> on_embedding{};
  // False: the request ends here, with `stop`. Not called in beam search.
  std::function<bool(const GeneratedToken&)> on_token{};
  // In beam search: whether a text of these generated tokens is complete.
  std::function<bool(std::span<const int32_t>)> ends_beam{};
  // Once, in beam search: the texts, best first, at most as many as there are beams.
  std::function<void(const std::vector<BeamText>&)> on_beams{};
  // Exactly once, last. `error` is empty but for `failed`.
  std::function<void(FinishReason, const Usage&, const std::string& error)> on_finish{};
};

}  // namespace colossal::serve
