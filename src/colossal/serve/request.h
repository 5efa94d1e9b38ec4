// A request to the inference engine (engine.h): the prompt, options, and the callbacks through
// which its results arrive.
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

// A token and the natural logarithm of its probability. All log-probabilities and entropies that a
// request reports are those of the softmax of the model's logits, before sampling options and
// constraints are applied. The logits of generated tokens are first divided by
// Request::logprobs_temperature.
struct TokenLogprob {
  int32_t token = 0;
  double logprob = 0;
};

// A generated token, or a token of the prompt (on_prompt). The fields after `token` are set only if
// log-probabilities are requested (Request::logprobs, Request::prompt_logprobs).
struct GeneratedToken {
  int32_t token = 0;
  double logprob = 0;
  double entropy = 0;  // of the distribution over all tokens at this position, in nats
  int64_t rank = 0;    // 1 + number of tokens with greater logits
  // The most likely tokens at this position, most likely first, as many as requested.
  std::vector<TokenLogprob> top{};
};

// Why a request ended.
enum class FinishReason {
  // The text ended: an end token was generated, the constraint is finished, or on_token returned
  // false. In beam search: the best text has an end token, or the constraint or ends_beam ended it.
  // With pooling: the embedding is complete.
  stop,
  // The text (in beam search, the best text) has max_new_tokens tokens, or as many as max_length,
  // EngineOptions::max_model_len and the model allow.
  length,
  cancelled,  // by Engine::cancel() or ~Engine()
  failed      // an error; on_finish receives the message
};

// Tokens and time of a request; passed to on_finish.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens found in the prefix cache
  // Generated tokens, without the end token; in beam search, those of the best text.
  int64_t completion_tokens = 0;
  double queue_seconds = 0;  // from submit() to the first step that works on the request
  // From that step until the whole prompt is computed, which gives the first token.
  double prefill_seconds = 0;
  double decode_seconds = 0;  // from then to on_finish
};

// Restricts which tokens may be generated next, depending on the text generated so far, e.g. by a
// grammar or a JSON schema. An object has the state of one text. Called on the engine's thread.
class LogitsConstraint {
 public:
  virtual ~LogitsConstraint() = default;
  // Sets the logits of tokens that may not come next to -infinity, in place. logits: [vocabulary],
  // fp64, contiguous; in beam search, log-probabilities in place of logits.
  virtual void apply(at::Tensor& logits) = 0;
  // Advances the state by the token that was generated. Not called for end tokens.
  virtual void accept(int32_t token) = 0;
  // Whether apply() can be called now without a long wait. Until then, steps go without the
  // request.
  virtual bool ready() const { return true; }
  // Whether the text is complete; the request then ends with `stop`.
  virtual bool finished() const { return false; }
  // Returns an independent copy with equal state, e.g. for a draft or a beam that is forked.
  virtual std::shared_ptr<LogitsConstraint> clone() const = 0;
};

// How the final hidden states of a prompt's tokens become one embedding.
enum class Pooling {
  none,   // no embedding is computed
  first,  // the embedding is the state of the first token ("[CLS]" in encoders like BERT)
  last,   // the embedding is the state of the last token
  mean    // the embedding is the mean of the states of all tokens
};

// Decides when beam search ends although its beams could still be extended. `width`,
// `length_penalty` and scores are those of BeamSearchOptions, below.
enum class EarlyStopping {
  // When `width` texts are complete and no current beam, scored at its current length, is better
  // than the worst of these texts.
  by_length,
  // When `width` texts are complete.
  at_width,
  // As by_length, but if length_penalty > 0, the score of a beam is its sum of log-probabilities
  // divided by (greatest number of tokens that the request may generate)^length_penalty: the best
  // score that it could still reach.
  never
};

// Options of a beam search (beam_search.h).
struct BeamSearchOptions {
  int64_t width = 1;  // number of beams and of returned texts; 1: no beam search
  // The score of a text is the sum of its tokens' log-probabilities, divided by
  // length^length_penalty. length: number of generated tokens, the end token included. Unlike the
  // log-probabilities that are reported, these have the constraint and the masks, biases and
  // penalties of `sampling` applied.
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::by_length;
};

// A complete text found by beam search.
struct BeamText {
  std::vector<GeneratedToken> tokens{};      // without the end token
  double score = 0;                          // see BeamSearchOptions::length_penalty
  FinishReason reason = FinishReason::stop;  // `stop` or `length`
};

struct Request {
  // Token numbers, at least one. Of an encoder-decoder: the source text, which the encoder reads.
  std::vector<int32_t> prompt{};
  // For an encoder with token types: the type of each token of the prompt; empty: 0.
  std::vector<int32_t> token_types{};
  SamplingOptions sampling{};
  // Maximum number of tokens to generate; 0: only the prompt is computed, for on_prompt or
  // on_embedding.
  int64_t max_new_tokens = 16;
  // If above 0: the greatest number of tokens of the text and, of a decoder, its prompt together;
  // of an encoder-decoder, of the text and the decoder's start token. Limits max_new_tokens.
  int64_t max_length = 0;
  // Each of these tokens ends the text (FinishReason::stop) and is not part of it.
  std::vector<int32_t> end_tokens{};
  // Number of most likely tokens whose log-probabilities are reported at each generated token
  // (GeneratedToken::top). 0: only the generated token's own log-probability; -1: no
  // log-probabilities.
  int64_t logprobs = -1;
  // Divides the logits from which log-probabilities of generated tokens are computed.
  double logprobs_temperature = 1;
  // Number of most likely tokens whose log-probabilities are reported to on_prompt at each token of
  // the prompt. 0: only the log-probability of the prompt's own token; -1: no log-probabilities,
  // and on_prompt is not called.
  int64_t prompt_logprobs = -1;
  // If not `none`, an embedding of the prompt is computed and passed to on_embedding. Requires
  // max_new_tokens = 0. A model that gives texts scores (models::ModelFacts::scores) returns its
  // scores in place of the embedding; the position that counts is `first` of encoders and `last` of
  // decoders.
  Pooling pooling = Pooling::none;
  // If beams.width > 1, the texts are found by beam search instead of sampling. `sampling` must
  // then have temperature 0 or 1 and the default top_k, top_p, min_p and typical_p; its masks,
  // biases and penalties apply.
  BeamSearchOptions beams{};
  // Requests with lower values are scheduled first; requests with equal values in order of arrival.
  int priority = 0;
  // The adapter to apply; null: none. Requests with different adapters share no pages of the prefix
  // cache.
  std::shared_ptr<const nn::AdapterWeights> adapter{};
  // Only requests with equal salts share pages of the prefix cache. A secret salt prevents that
  // others can find out, from response times, which prompts are cached.
  std::string cache_salt{};
  std::shared_ptr<LogitsConstraint> constraint{};  // null: no constraint

  // The callbacks below may be empty. They are called on the engine's thread, so they must not
  // block. Of the engine's functions, they may call only submit() and cancel(). If a callback
  // throws, the request ends with `failed`; if on_finish throws, the exception is only logged.

  // Called once, before the first generated token, if prompt_logprobs >= 0. The argument has one
  // element for each token of the prompt; the first is nullopt, because nothing predicts the first
  // token.
  std::function<void(const std::vector<std::optional<GeneratedToken>>&)> on_prompt{};
  // Called once, with the embedding (as many numbers as the hidden size) or the scores, if pooling
  // is not `none`.
  std::function<void(const std::vector<double>&)> on_embedding{};
  // Called for each generated token except end tokens. If it returns false, the request ends with
  // `stop`. Not called in beam search.
  std::function<bool(const GeneratedToken&)> on_token{};
  // Called for the end token that ends the text, which on_token does not get. Not called in beam
  // search.
  std::function<void(const GeneratedToken&)> on_end_token{};
  // In beam search: returns whether the text with these generated tokens is complete, e.g. because
  // of a stop string; see ends_beam_at() (stop_strings.h).
  std::function<bool(std::span<const int32_t>)> ends_beam{};
  // In beam search: called once with the complete texts, best first, at most beams.width.
  std::function<void(const std::vector<BeamText>&)> on_beams{};
  // Called exactly once, after all other callbacks. `error` is empty unless the reason is `failed`.
  std::function<void(FinishReason, const Usage&, const std::string& error)> on_finish{};
};

}  // namespace colossal::serve
