// A request as the engine works on it.
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

// How many tokens are guessed of a text at once, by how right its last guesses were. It changes how
// fast a text comes, never the text.
class DraftLength {
 public:
  // For the next step, at most `most`.
  int64_t next(int64_t most) {
    if (length_ < 0) length_ = most;
    if (length_ == 0 && --pause_ <= 0) length_ = 1;
    return std::min(length_, most);
  }
  // After a step that checked some guesses: twice as many where all were right, half as many where
  // none was, and after a single wrong one none for some steps.
  void learn(int64_t checked, int64_t right) {
    if (checked == 0) return;
    if (right == checked) length_ = 2 * checked;
    if (right == 0) length_ = checked / 2;
    if (length_ == 0) pause_ = kPause;
  }

 private:
  static constexpr int64_t kPause = 8;
  int64_t length_ = -1;  // below 0: nothing is known yet
  int64_t pause_ = 0;
};

struct BeamGroup;

struct Sequence {
  using Clock = std::chrono::steady_clock;

  uint64_t id = 0;  // in order of arrival
  Request request{};
  std::string salt{};             // of the pages that it may share
  std::vector<int32_t> tokens{};  // the prompt, and what was generated

  std::vector<int32_t> drafts{};  // guesses of what follows `tokens`
  DraftLength draft_length{};
  int64_t drafted = 0;  // how many first tokens a drafter has read, those that it guessed included
  // For a drafter that reads the model's states: those of the last step, of tokens from
  // states_begin on, [tokens, hidden]; and the one that it expects of the last token, [hidden].
  at::Tensor states{}, expected_state{};
  int64_t states_begin = 0;

  int64_t computed = 0;          // how many first tokens have their keys and values in `pages`
  std::vector<int64_t> pages{};  // from the first position on
  std::vector<PagePool::Prefix> kept{};  // beginnings that end with the first pages

  // In beam search: what it is a beam of, and which one. It waits once its logits were there, until
  // those of all beams are.
  std::shared_ptr<BeamGroup> group{};
  int64_t beam = 0;
  bool waits = false;
  // Steps that work on it, whose results are not all dealt with, and how many tokens after
  // `computed` they compute, guesses not counted.
  int64_t steps = 0;
  int64_t under_way = 0;
  bool has_ended = false;  // only those steps still know it

  std::vector<std::optional<GeneratedToken>> prompt_logprobs{};
  std::vector<double> pooled{};  // the sum of the states of the first `num_pooled` tokens
  int64_t num_pooled = 0;
  bool prompt_done = false;  // the first logits were there

  Usage usage{};
  Clock::time_point submitted{}, started{}, first_token{};
  bool has_started = false;

  int64_t size() const { return std::ssize(tokens); }
  int64_t prompt_size() const { return std::ssize(request.prompt); }
  PagePool::Prefix prefix() const { return kept.empty() ? 0 : kept.back(); }
  int64_t pending() const { return size() - computed; }
  bool generates() const { return pending() == 1 && !waits; }
  // Of the pending ones, those that no step computes yet.
  int64_t remaining() const { return pending() - under_way; }
  bool is_free() const { return !waits && remaining() > 0; }
  std::span<const int32_t> generated() const {
    return std::span(tokens).subspan(request.prompt.size());
  }
  bool wants_prompt_logprobs() const { return request.prompt_logprobs >= 0 && !prompt_done; }
  // Whether the whole prompt must be computed, so that none of its pages may be reused.
  bool wants_whole_prompt() const {
    return wants_prompt_logprobs() || request.pooling == Pooling::mean;
  }

  uint64_t adapter_number() const { return request.adapter ? request.adapter->number : 0; }

  // What comes first is worked on first, and loses its pages last.
  using Order = std::tuple<int, uint64_t, int64_t>;
  Order order() const { return {request.priority, id, beam}; }
};

}  // namespace colossal::serve
