// The inference engine's state of a request; in beam search, of one beam of a request. Scheduler
// owns the sequences; EngineCore and the drafters read and change them.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "colossal/serve/logits_processing.h"
#include "colossal/serve/page_pool.h"
#include "colossal/serve/request.h"

namespace colossal::serve {

// Chooses how many tokens to draft for a sequence: more after drafts that were accepted, fewer
// after drafts that were rejected. Affects speed only, never the generated text.
class DraftLength {
 public:
  // Returns how many tokens to draft for the next step, at most `most`. The first call returns
  // `most`.
  int64_t next(int64_t most) {
    if (length_ < 0) length_ = most;
    if (length_ == 0 && --pause_ <= 0) length_ = 1;
    return std::min(length_, most);
  }
  // Call after a step that verified `checked` draft tokens and accepted `right` of them. The next
  // length is 2 * checked if all were accepted, checked / 2 if none was accepted, else unchanged.
  // If it becomes 0, the next kPause - 1 calls of next() return 0; the call after these returns 1.
  // Does nothing if `checked` is 0.
  void learn(int64_t checked, int64_t right) {
    if (checked == 0) return;
    if (right == checked) length_ = 2 * checked;
    if (right == 0) length_ = checked / 2;
    if (length_ == 0) pause_ = kPause;
  }

 private:
  static constexpr int64_t kPause = 8;
  int64_t length_ = -1;  // below 0: next() was not called yet
  int64_t pause_ = 0;
};

struct BeamGroup;

struct Sequence {
  using Clock = std::chrono::steady_clock;

  uint64_t id = 0;  // id of the request (RequestId), in order of arrival
  Request request{};
  // Only sequences with equal salts share pages. Depends on Request::cache_salt, the adapter, and
  // whatever else changes keys and values.
  std::string salt{};
  // Of an encoder-decoder: the tokens that the encoder reads; else empty.
  std::vector<int32_t> source{};
  // The prompt, then the generated tokens. Of an encoder-decoder: Request::prompt has become
  // `source`, and the prompt is the decoder's start token.
  std::vector<int32_t> tokens{};

  std::vector<int32_t> drafts{};  // draft tokens that follow `tokens`, not yet verified
  DraftLength draft_length{};
  bool rejects_drafts = false;  // its constraint has thrown while tokens were drafted
  // For ModelDrafter: number of leading tokens, drafts included, whose keys and values the draft
  // model has computed.
  int64_t drafted = 0;
  // For HeadDrafter. states: the model's final hidden states [tokens, hidden] of the tokens that
  // the last step computed; row 0 is that of the token at position states_begin. expected_state:
  // the hidden state [hidden] that the head predicted last.
  at::Tensor states{}, expected_state{};
  int64_t states_begin = 0;

  int64_t computed = 0;          // number of leading tokens whose keys and values are in `pages`
  std::vector<int64_t> pages{};  // page numbers; page i has positions from i * page_size on
  // For each leading full page: the prefix that ends with it (PagePool::keep()).
  std::vector<PagePool::Prefix> kept{};

  // In beam search: all beams of the request; null without beam search. beam: number of this beam,
  // unique within the request. waits: this beam's logits have arrived, and it waits for the logits
  // of the request's other beams.
  std::shared_ptr<BeamGroup> group{};
  int64_t beam = 0;
  bool waits = false;
  // steps: number of steps in flight that compute tokens of this sequence. tokens_in_flight: number
  // of elements of `tokens` that these steps compute, from tokens[computed] on; draft tokens do not
  // count.
  int64_t steps = 0;
  int64_t tokens_in_flight = 0;
  // The request has ended; the object exists only until the steps in flight are over.
  bool has_ended = false;

  // Log-probabilities of the prompt's tokens computed so far, to be passed to Request::on_prompt.
  // The first is nullopt, because nothing predicts the first token.
  std::vector<std::optional<GeneratedToken>> prompt_logprobs{};
  // For an embedding: [hidden], the sum of the final hidden states of the first num_pooled tokens
  // (Pooling::mean), or the last token's state (Pooling::last).
  std::vector<double> pooled{};
  int64_t num_pooled = 0;
  bool prompt_done = false;  // the results of the prompt's last token have arrived

  Usage usage{};
  // Times of submit(), of the first step, and of the arrival of the first logits.
  Clock::time_point submitted{}, started{}, first_token{};
  bool has_started = false;  // a step has included this sequence; `started` is set

  int64_t size() const { return std::ssize(tokens); }  // tokens, without drafts
  int64_t prompt_size() const { return std::ssize(request.prompt); }
  // Tokens of the prompt that the request was submitted with.
  int64_t num_submitted() const { return source.empty() ? prompt_size() : std::ssize(source); }
  // Returns the prefix that ends with the last page in `kept`; 0, the empty prefix, if there is
  // none.
  PagePool::Prefix prefix() const { return kept.empty() ? 0 : kept.back(); }
  // Number of tokens whose keys and values are not computed yet.
  int64_t pending() const { return size() - computed; }
  // Whether the sequence is in the decode phase: one token is to be computed, whose logits predict
  // the next token.
  bool generates() const { return pending() == 1 && !waits; }
  // Number of pending tokens that no step in flight computes.
  int64_t remaining() const { return pending() - tokens_in_flight; }
  // Whether the constraint of the next token is not ready.
  bool awaits_constraint() const { return request.constraint && !request.constraint->ready(); }
  // Whether the next step may compute tokens of this sequence.
  bool is_schedulable() const { return !waits && remaining() > 0 && !awaits_constraint(); }
  // Returns the tokens after the prompt.
  std::span<const int32_t> generated() const {
    return std::span(tokens).subspan(request.prompt.size());
  }
  // Returns the text whose next token follows `after`: the generated tokens or, of a draft, these
  // and the draft tokens before. The result points into this object and `after`.
  TextSoFar text_before(std::span<const int32_t> after) const {
    return {.prompt = request.prompt,
            .generated = after,
            .end_tokens = request.end_tokens,
            .source = source.empty() ? request.prompt : source,
            .max_new_tokens = request.max_new_tokens};
  }
  bool wants_prompt_logprobs() const { return request.prompt_logprobs >= 0 && !prompt_done; }
  // Whether the whole prompt must be computed, so that the prefix cache is not used.
  bool wants_whole_prompt() const {
    return wants_prompt_logprobs() || request.pooling == Pooling::mean;
  }

  // Returns AdapterWeights::number; 0 without an adapter.
  uint64_t adapter_number() const { return request.adapter ? request.adapter->number : 0; }

  // Sequences are scheduled in ascending order and preempted in descending order of (priority, id,
  // beam).
  using Order = std::tuple<int, uint64_t, int64_t>;
  Order order() const { return {request.priority, id, beam}; }
};

}  // namespace colossal::serve
