// The engine's state of a request; in beam search, of one beam of a request.
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

#include "colossal/serve/page_pool.h"
#include "colossal/serve/request.h"

namespace colossal::serve {

// Adapts the number of draft tokens of a sequence to how many of its last draft tokens were
// accepted. Affects speed only, never the generated text.
class DraftLength {
 public:
  // Returns how many tokens to draft for the next step, at most `most`.
  int64_t next(int64_t most) {
    if (length_ < 0) length_ = most;
    if (length_ == 0 && --pause_ <= 0) length_ = 1;
    return std::min(length_, most);
  }
  // Called after a step that verified `checked` draft tokens and accepted `right` of them. Sets the
  // length to 2 * checked if all were accepted, to checked / 2 if none was. If the length becomes
  // 0, next() returns 0 until its kPause-th call.
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

  uint64_t id = 0;  // in order of arrival
  Request request{};
  std::string salt{};             // only sequences with equal salts share pages
  std::vector<int32_t> tokens{};  // the prompt, then the generated tokens

  std::vector<int32_t> drafts{};  // draft tokens after `tokens`
  DraftLength draft_length{};
  int64_t drafted = 0;  // leading tokens, drafts included, that the draft model has read
  // For HeadDrafter. states: the model's final hidden states [tokens, hidden] of the tokens from
  // states_begin on that the last step computed. expected_state: the last predicted hidden state,
  // [hidden].
  at::Tensor states{}, expected_state{};
  int64_t states_begin = 0;

  int64_t computed = 0;          // number of leading tokens whose keys and values are in `pages`
  std::vector<int64_t> pages{};  // page numbers, in order of positions
  std::vector<PagePool::Prefix> kept{};  // prefix cache entries of the leading full pages

  // In beam search: the group that this beam belongs to (null otherwise) and the beam's number in
  // it. `waits`: the logits of this beam have arrived, and those of another beam of the group have
  // not.
  std::shared_ptr<BeamGroup> group{};
  int64_t beam = 0;
  bool waits = false;
  // steps: number of steps in flight that compute tokens of this sequence. tokens_in_flight: number
  // of tokens after `computed` that these steps compute, draft tokens not counted.
  int64_t steps = 0;
  int64_t tokens_in_flight = 0;
  bool has_ended = false;  // ended; kept only for the steps in flight

  std::vector<std::optional<GeneratedToken>> prompt_logprobs{};
  // [hidden]: sum over the final hidden states of the first num_pooled tokens (Pooling::mean), or
  // the last token's state
  std::vector<double> pooled{};
  int64_t num_pooled = 0;
  bool prompt_done = false;  // the first logits have arrived

  Usage usage{};
  Clock::time_point submitted{}, started{}, first_token{};
  bool has_started = false;

  int64_t size() const { return std::ssize(tokens); }
  int64_t prompt_size() const { return std::ssize(request.prompt); }
  PagePool::Prefix prefix() const { return kept.empty() ? 0 : kept.back(); }
  // Number of tokens whose keys and values are not computed yet.
  int64_t pending() const { return size() - computed; }
  // Whether computing one token gives the next token's logits.
  bool generates() const { return pending() == 1 && !waits; }
  // Number of pending tokens that no step in flight computes.
  int64_t remaining() const { return pending() - tokens_in_flight; }
  // Whether another step may compute tokens of this sequence.
  bool is_schedulable() const { return !waits && remaining() > 0; }
  std::span<const int32_t> generated() const {
    return std::span(tokens).subspan(request.prompt.size());
  }
  bool wants_prompt_logprobs() const { return request.prompt_logprobs >= 0 && !prompt_done; }
  // Whether the whole prompt must be computed, so that the prefix cache is not used.
  bool wants_whole_prompt() const {
    return wants_prompt_logprobs() || request.pooling == Pooling::mean;
  }

  uint64_t adapter_number() const { return request.adapter ? request.adapter->number : 0; }

  // Sequences are scheduled in ascending order and preempted in descending order.
  using Order = std::tuple<int, uint64_t, int64_t>;
  Order order() const { return {request.priority, id, beam}; }
};

}  // namespace colossal::serve
